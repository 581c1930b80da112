from skdpfl.flower._client import client_app as client_app
from skdpfl.flower._courier import FlowerCourier as FlowerCourier
from skdpfl.flower._server import server_app as server_app
from skdpfl.flower._gate_app import gate_app as gate_app
