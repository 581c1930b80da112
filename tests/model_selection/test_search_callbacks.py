"""Callbacks of a search (scikit-learn 1.9 on): every run where runs are public, none where not."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdpfl import ISRLDPClassifier
from skdpfl.model_selection import DPRandomizedSearchCV

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn < 1.9")

X = np.random.default_rng(0).normal(size=(400, 3))
y = X[:, 0] > 0

pytestmark = pytest.mark.filterwarnings("ignore:The estimator Normalizer does not support")


class Tree:
    """Keeps the names of the tasks it is told of, and the rounds under each."""

    max_propagation_depth = None

    def __init__(self, error_at=None):
        self.names, self.events, self.roots, self.error_at = [], [], set(), error_at

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, **data):
        self.names.append(f"{context.estimator_name} {context.task_name}")
        self.roots.add(_root(context).estimator_name)
        if len(self.names) == self.error_at:
            raise RuntimeError("broken")

    def on_fit_task_end(self, estimator, context, **data):
        return False


def _root(context):
    while context.parent is not None:
        context = context.parent
    return context


def search(trust, watch=None, pipe=False, inner=None):
    model = ISRLDPClassifier(trust=trust, n_rounds=4, feature_bounds=(-4, 4))
    if inner is not None:
        model.set_callbacks(inner)
    params = {"alpha": [0, 0.1, 0.2]}
    if pipe:
        model = make_pipeline(Normalizer(), model)
        params = {"isrldpclassifier__alpha": [0, 0.1, 0.2]}
    found = DPRandomizedSearchCV(model, params, n_iter=3, epsilon=5.0, random_state=0)
    return found.set_callbacks(watch) if watch is not None else found


@pytest.mark.parametrize("pipe", [False, True])
def test_rounds_are_nested_under_candidates(pipe):
    watch = Tree()
    fitted = search("silo", watch, pipe).fit(X, y)
    assert watch.names.count("ISRLDPClassifier fit") == 3
    assert watch.names.count("ISRLDPClassifier round") == 12
    assert watch.roots == {"DPRandomizedSearchCV"}
    assert watch.events == ["setup", "teardown"]
    left = [name for name in vars(fitted.best_estimator_) if "callback" in name]
    assert not left


@pytest.mark.slow
@pytest.mark.parametrize("pipe", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_secret_search_shows_callbacks_nothing(pipe):
    watch = Tree()
    search("server", watch, pipe).fit(X, y)
    assert watch.names == ["DPRandomizedSearchCV fit"]
    own = Tree()
    own.__class__ = type("NotPropagated", (), {**vars(Tree)})
    with pytest.warns(UserWarning, match="not called in a search"):
        search("server", None, pipe, own).fit(X, y)
    assert own.names == own.events == []
