"""The server's app after its process was killed."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.supercore.task_identity import TaskIdentity

from skdpfl.flower import server_app
from tests.internals.flower.test_courier import Grid
from tests.remote.silos_here import NAMES, Here, Killed, estimator, fit_here, problem, schema


class Context:
    run_config = {"study": "first"}  # noqa: RUF012


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
