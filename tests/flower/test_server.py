"""The server's app: what needs records in one place is refused in words."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.supercore.task_identity import TaskIdentity
from sklearn.pipeline import make_pipeline

from skdpfl.flower import server_app
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.preprocessing import DPStandardScaler
from skdpfl.remote import Refused
from tests.internals.flower.test_courier import Grid
from tests.remote.silos_here import NAMES, Here, estimator, fit_here, problem, schema

MODELS = {
    "pipeline": make_pipeline(DPStandardScaler(), estimator()),
    "search": DPRandomizedSearchCV(estimator(), {"alpha": [0.1]}),
}


class Context:
    run_config = {"study": "first"}  # noqa: RUF012


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("made", [False, True], ids=["given", "by a function"])
def test_pipelines_and_searches_are_refused_in_words(name, made):
    model, facts = MODELS[name], schema(problem())
    given = (lambda config: model) if made else model
    with pytest.raises(Refused):
        app = server_app(given, facts, finished=lambda *args: None)
        app(None, Context())


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("after", [9, 14])
def test_a_run_after_the_server_was_killed_goes_on(tmp_path, after):
    """The same model as in one process; each ledger has the fit once."""
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    here, found = Here(tmp_path, problem()), []
    options = {"calibrate": False, "scaling": None, "n_rounds": 3}
    app = server_app(
        lambda config: estimator(**options),
        schema(here.problem),
        finished=lambda model, federation, config: found.append(model),
        journal=lambda config: str(tmp_path / f"{config['study']}.journal"),
        timeout=20.0,
    )
    gate, count = here.gate, []

    def killed(name):
        count.append(name)
        if len(count) == after:
            raise Killed
        return gate(name)

    here.gate = killed
    with pytest.raises(Killed):
        app(Grid(here), Context())
    assert not found
    app(Grid(here), Context())
    assert np.array_equal(found[0].coef_, fit_here(estimator(**options), here.problem).coef_)
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4
