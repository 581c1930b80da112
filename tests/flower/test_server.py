"""The server's app: what needs records in one place is refused in words."""

import pytest

pytest.importorskip("flwr")

from sklearn.pipeline import make_pipeline

from skdpfl.flower import server_app
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.preprocessing import DPStandardScaler
from skdpfl.remote import Refused
from tests.remote.silos_here import estimator, problem, schema

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
