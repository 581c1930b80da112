"""The server's controller: it fits an estimator with the sites of its job."""

from abc import abstractmethod
from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from skdpfl.nvflare._site import LETTER, TOPIC
from skdpfl.remote import Courier, DirectCourier


class SiteCourier(DirectCourier):
    """Take letters to silos that are NVFlare's sites; each site has the name of its silo.

    Parameters
    ----------
    engine : ServerEngineSpec
        NVFlare's engine.
    abort_signal : Signal
        Ends the fit when the job is aborted.
    timeout : float, default=60.0
        Seconds to wait for an answer, and for a site whose gate is being started.
    """

    def __init__(self, engine: Any, abort_signal: Signal, *, timeout: float = 60.0) -> None:
        super().__init__(timeout=timeout, absence=timeout)
        self._engine, self._abort = engine, abort_signal

    def ask(self, name: str, letter: bytes) -> bytes:
        if self._abort.triggered:
            raise RuntimeError("The job was aborted.")
        with self._engine.new_context() as context:
            replies = self._engine.send_aux_request(
                targets=[name],
                topic=TOPIC,
                request=Shareable({LETTER: letter}),
                timeout=self._timeout,
                fl_ctx=context,
                optional=True,
                secure=False,
            )
        reply = (replies or {}).get(name)
        answer = None if reply is None else reply.get(LETTER)
        if reply is None or reply.get_return_code() != ReturnCode.OK or answer is None:
            raise ConnectionError(f"The site {name!r} did not answer.")
        return bytes(answer)


class FitController(Controller):
    """Base class of the server's controllers: a job is one call of :meth:`fit`.

    A job ends with an error if :meth:`fit` raises one. NVFlare starts no job at a site that was
    away: submit it again, and with a journal (:class:`skdpfl.remote.RemoteFederation`) the fit goes
    on where it was, and nobody pays twice.

    Parameters
    ----------
    timeout : float, default=60.0
        Seconds to wait for a site's answer.

    See Also
    --------
    GateExecutor : The executor of sites.
    """

    def __init__(self, timeout: float = 60.0) -> None:
        super().__init__()
        self._timeout = timeout

    @abstractmethod
    def fit(self, courier: Courier) -> None:
        """Fit an estimator by a courier, and store it.

        Parameters
        ----------
        courier : Courier
            What takes letters to the sites (:class:`skdpfl.remote.RemoteFederation`).
        """

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the job."""
        self.fit(SiteCourier(fl_ctx.get_engine(), abort_signal, timeout=self._timeout))

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: all is done by the fit."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: a fit that was interrupted has a journal."""

    def process_result_of_unknown_task(self, *args: Any) -> None:
        """Do nothing: there are no tasks."""
