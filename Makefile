# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: torch-tests flower-demo nvflare-demo demo test slow wide coverage lint docs examples papers papers-quick clean

$(VENV)/.package: pyproject.toml setup.py $(wildcard skdpfl/_compiled/*.[ch])
	@echo "Making $(VENV) with $$($(PYTHON) --version), this package and what it needs (scikit-learn, pandas,"
	@echo "SciPy, matplotlib): some 500 MB and a minute, once. Nothing outside $(VENV) is changed."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

$(VENV)/.installed: $(VENV)/.package
	@echo "Adding what tests, checks and pages need (pytest, ruff, mypy, Sphinx and others, pyproject.toml"
	@echo "lists them): some 600 MB and a few minutes, once."
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable ".[test,dev,docs]"
	touch $@

demo: $(VENV)/.package   ## the main job: private baselines over silos, a table and a picture
	$(BIN)/python examples/demo.py

test: $(VENV)/.installed   ## the fast tests
	$(BIN)/python -m pytest -n auto -m "not slow"

slow: $(VENV)/.installed   ## the slow tests
	$(BIN)/python -m pytest -n auto -m "slow and not wide"

wide: $(VENV)/.installed   ## more cases of what the others show: make wide PART=2/4
	$(BIN)/python -m pytest -n auto -m wide --part $(or $(PART),1/1)

coverage: $(VENV)/.installed   ## which lines no test runs, fast or slow: htmlcov/index.html
	$(BIN)/python -m pytest -q -n auto --cov --cov-report=term --cov-report=html

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

papers: $(VENV)/.installed  ## the papers' tables and figures in full, what is missing of them: hours
	$(BIN)/python benchmarks/papers/run.py $(if $(OUT),--out $(OUT))

papers-quick: $(VENV)/.installed  ## small versions of all of them, minutes: make papers-quick OUT=dir
	$(BIN)/python benchmarks/papers/run.py --quick --out $(or $(OUT),papers-quick)

# Flower has an environment of its own: it brings some 60 packages, which skdpfl does not need
FLOWER_VENV ?= .venv-flower

$(FLOWER_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FLOWER_VENV)
	$(FLOWER_VENV)/bin/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore $(FLOWER_VENV)/bin/python -m pip install --quiet --editable ".[flower,secure]"
	touch $@

flower-demo: $(FLOWER_VENV)/.installed  ## four hospitals on this computer by Flower: make flower-demo OUT=dir
	$(FLOWER_VENV)/bin/python examples/flower/demo.py $(or $(OUT),flower-demo) $(FLOWER_DEMO)

# NVFlare, too
NVFLARE_VENV ?= .venv-nvflare

$(NVFLARE_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(NVFLARE_VENV)
	$(NVFLARE_VENV)/bin/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore $(NVFLARE_VENV)/bin/python -m pip install --quiet --editable ".[nvflare,secure]"
	touch $@

nvflare-demo: $(NVFLARE_VENV)/.installed  ## four hospitals on this computer by NVFlare: make nvflare-demo OUT=dir
	$(NVFLARE_VENV)/bin/python examples/nvflare/demo.py $(or $(OUT),nvflare-demo) $(NVFLARE_DEMO)

# PyTorch, too: some 700 MB, in the version that the tests know
TORCH_VENV ?= .venv-torch

$(TORCH_VENV)/.packages: pyproject.toml
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(TORCH_VENV)/bin/python -m pip install --quiet torch==2.13.0 pytest hypothesis scikit-learn pandas
	touch $@

$(TORCH_VENV)/.installed: $(TORCH_VENV)/.packages
	PYTHONWARNINGS=ignore $(TORCH_VENV)/bin/python -m pip install --quiet --editable ".[torch]"
	touch $@

torch-tests: $(TORCH_VENV)/.installed  ## the tests of skdpfl.torch: make torch-tests MARK="not slow"
	$(TORCH_VENV)/bin/python -m pytest -q -m "$(MARK)" tests/torch tests/internals/torch

environments: $(FLOWER_VENV)/.installed $(NVFLARE_VENV)/.installed $(TORCH_VENV)/.installed

clean:
	rm -rf $(VENV) $(FLOWER_VENV) $(NVFLARE_VENV) $(TORCH_VENV) docs/_build docs/auto_examples docs/generated build dist *.egg-info
