"""Letters by NVFlare's own classes, without its processes (examples/nvflare/demo.py has those)."""

import threading

import pytest

pytest.importorskip("nvflare")

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReturnCode, SystemConfigs
from nvflare.apis.fl_context import FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.utils.config_service import ConfigService

from skdpfl.nvflare import FitController, GateExecutor, SiteCourier
from skdpfl.remote import SilosMissing
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem

PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}


class Engine:
    """The sites of a job: a handler for each, which may be away for some requests."""

    def __init__(self, handlers, away=()):
        self.handlers, self.away, self.asked = handlers, set(away), 0
        self.contexts = FLContextManager(engine=self, identity_name="server")
        self.lock = threading.Lock()

    def new_context(self):
        return self.contexts.new_context()

    def send_aux_request(self, targets, topic, request, timeout, fl_ctx, **options):
        (name,) = targets
        with self.lock:
            self.asked += 1
            if self.asked in self.away:
                return {name: make_reply(ReturnCode.COMMUNICATION_ERROR)}
        return {name: self.handlers[name](topic, request, fl_ctx)}


@pytest.fixture
def sites(tmp_path):
    """Make sites whose gates are in this process."""
    here = Here(tmp_path, problem())
    lock = threading.Lock()

    def handler(name):
        def answer(topic, request, fl_ctx):
            with lock:
                reply = make_reply(ReturnCode.OK)
                reply["letter"] = here.deliver({name: request["letter"]})[name]
                return reply

        return answer

    return {name: handler(name) for name in NAMES}


def courier(engine, timeout=20.0):
    made = SiteCourier(engine, Signal(), timeout=timeout)
    made.problem = problem()
    return made


@pytest.mark.parametrize("away", [(), (1, 2, 5, 9)])
def test_the_model_is_that_of_one_process_though_sites_are_away(sites, away):
    there = fit_elsewhere(estimator(**PLAIN), courier(Engine(sites, away)))
    assert (there.coef_ == fit_here(estimator(**PLAIN), problem()).coef_).all()


def test_a_site_that_stays_away_is_named(sites):
    gone = sites | {"north": lambda *_: make_reply(ReturnCode.SERVICE_UNAVAILABLE)}
    with pytest.raises(SilosMissing, match="north"):
        fit_elsewhere(estimator(**PLAIN), courier(Engine(gone), timeout=0.2))


def test_a_site_with_another_silos_name_is_an_error(sites):
    with pytest.raises(ValueError, match="silo 'north' must be that; found 'south'"):
        fit_elsewhere(estimator(**PLAIN), courier(Engine(sites | {"north": sites["south"]})))


def test_an_aborted_job_ends_its_fit(sites):
    class Job(FitController):
        def fit(self, courier):
            courier.deliver({"north": b""})

    engine, aborted = Engine(sites), Signal()
    aborted.trigger(True)
    with engine.new_context() as context, pytest.raises(RuntimeError, match="aborted"):
        Job().control_flow(aborted, context)


def test_an_executor_carries_letters_to_the_sites_own_gate_only(tmp_path, monkeypatch):
    seen = {}

    class Site:
        def register_aux_message_handler(self, topic, message_handle_func):
            seen[topic] = message_handle_func

        def fire_event(self, event_type, fl_ctx):
            """NVFlare tells its logs to all components."""

    path = str(tmp_path / "no.socket")
    ConfigService.reset()
    ConfigService.add_section(SystemConfigs.RESOURCES_CONF, {"skdpfl_gate": path})
    context = FLContextManager(engine=Site(), identity_name="north").new_context()
    executor = GateExecutor()
    executor.handle_event(EventType.START_RUN, context)
    ((topic, carry),) = seen.items()
    said = carry(topic, Shareable({"letter": b"", "skdpfl_gate": "/etc/shadow"}), context)
    assert said.get_return_code() == ReturnCode.SERVICE_UNAVAILABLE
    assert "letter" not in said and path not in repr(dict(said))  # no words of the error
    task = executor.execute("train", Shareable(), context, Signal())
    assert task.get_return_code() == ReturnCode.TASK_UNSUPPORTED
