"""The executor of a site: it carries letters to the hospital's gate."""

from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode, SystemConfigs
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.utils.config_service import ConfigService

from skdpfl.remote import ask_gate

#: the topic of NVFlare's messages that carry letters, and the field of one that is the letter
TOPIC, LETTER = "skdpfl.letter", "letter"
#: the key of ``local/resources.json`` that is the path of the gate's socket
GATE = "skdpfl_gate"


class GateExecutor(Executor):
    """Executor that carries letters to the site's gate (``skdpfl silo serve``), and nothing else.

    The path of the gate's socket is in the site's own ``local/resources.json``, which no job can
    change: ``"skdpfl_gate": "/run/skdpfl/north.socket"``. With ``"class_allow_list":
    ["skdpfl.nvflare.GateExecutor"]`` in the same file, and no right to bring code (``byoc``) in
    ``local/authorization.json``, a job can run nothing else at the site. The site's user cannot
    read records, ledger or keys, which belong to the gate's user.

    See Also
    --------
    FitController : The server's controller.
    """

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Take letters as soon as a job runs."""
        if event_type == EventType.START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._carry)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Refuse tasks: letters come as messages, at once, instead of being fetched."""
        return make_reply(ReturnCode.TASK_UNSUPPORTED)

    def _carry(self, topic: str, request: Any, fl_ctx: FLContext) -> Shareable:
        """Return the gate's answer; no words of errors, which would travel to the server."""
        letter = request.get(LETTER)
        gate = ConfigService.get_str_var(GATE, SystemConfigs.RESOURCES_CONF, "")
        try:
            answer = ask_gate(gate, letter if isinstance(letter, bytes) else b"")
        except OSError as error:
            self.log_error(fl_ctx, f"no gate at {gate!r} ({type(error).__name__})")
            return make_reply(ReturnCode.SERVICE_UNAVAILABLE)
        reply = make_reply(ReturnCode.OK)
        reply[LETTER] = answer
        return reply
