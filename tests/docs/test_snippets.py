"""Every Python snippet of README and the pages runs, in order, page by page.

A fence ```python is executed; ```{code-block} python and other fences are not. Lines that begin
with ``>>>`` are run as doctests, so their printed results are checked too; elsewhere a comment
``# prints ...`` says what a line has to print.
"""

import doctest
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from tests.paid import check_paid

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "papers").glob("*.md"))
PRINTS = re.compile(r"# prints (.*)$", re.MULTILINE)
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page):
    return FENCE.findall(page.read_text())


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: p.name)
def test_snippets_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for number, code in enumerate(snippets(page), start=1):
        name = f"{page.name}, snippet {number}"
        if code.lstrip().startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, namespace, name, str(page), 0)
            flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
            runner = doctest.DocTestRunner(optionflags=flags)
            runner.run(test, clear_globs=False)
            assert runner.failures == 0, f"{name}: see the output above"
            namespace = test.globs
        else:
            capsys.readouterr()
            exec(compile(code, name, "exec"), namespace)
            if promised := PRINTS.findall(code):
                assert capsys.readouterr().out.splitlines() == promised, name
        check_paid(namespace)
    plt.close("all")
