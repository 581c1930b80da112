from skdpfl.flower._client import (
    client_app as client_app,
    gate_app as gate_app,
)
from skdpfl.flower._server import FlowerCourier as FlowerCourier
from skdpfl.flower._server import server_app as server_app
