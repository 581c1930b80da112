from skdpfl.remote._declared import (
    declare as declare,
    pack as pack,
    unpack as unpack,
)
from skdpfl.remote._federation import (
    SilosMissing as SilosMissing,
)
from skdpfl.remote._federation import RemoteFederation as RemoteFederation
from skdpfl.remote._gate import (
    Gate as Gate,
    answer_of as answer_of,
)
from skdpfl.remote._letters import (
    Hello as Hello,
    Introduction as Introduction,
    introduction_in as introduction_in,
)
from skdpfl.remote._lines import (
    LineCourier as LineCourier,
    LineServer as LineServer,
    SiloLine as SiloLine,
    dial as dial,
    new_identity as new_identity,
)
from skdpfl.remote._memory import SiloStore as SiloStore
from skdpfl.remote._records import SiloRecords as SiloRecords
from skdpfl.remote._masks import (
    new_silo_key as new_silo_key,
    public_key as public_key,
    sign_text as sign_text,
    signed_by as signed_by,
)
from skdpfl.remote._terms import Refused as Refused
from skdpfl.remote._score import (
    Scores as Scores,
    score_federation as score_federation,
)
from skdpfl.remote._socket import (
    Courier as Courier,
    DirectCourier as DirectCourier,
    Doorway as Doorway,
    SocketCourier as SocketCourier,
    ask_gate as ask_gate,
    connected as connected,
    peer_of as peer_of,
    receive as receive,
    send as send,
)
from skdpfl.remote._terms import Terms as Terms
from skdpfl._codec import WireError as WireError
