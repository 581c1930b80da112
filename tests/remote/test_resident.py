"""The process that a silo leaves behind; it needs no Flower."""

import os
import stat
import sys
import threading
import time

import pytest

from skdpfl.flower import _resident
from skdpfl.flower._resident import asked, leave_behind, serve, socket_of


def test_it_answers_until_nothing_is_asked(tmp_path):
    path, heard = tmp_path / "s", []

    def answer(letter):
        heard.append(letter)
        return letter[::-1]

    silo = threading.Thread(target=serve, args=(path, 0.4, answer))
    silo.start()
    while asked(path, b"first") is None:
        time.sleep(0.01)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    long = os.urandom(3_000_000)
    assert asked(path, long) == long[::-1]
    assert asked(path, b"") == b""
    silo.join(timeout=5)
    assert not silo.is_alive() and not path.exists()
    assert heard[-2:] == [long, b""]
    assert asked(path, b"too late") is None


def test_nobody_there_is_no_error(tmp_path):
    assert asked(tmp_path / "nobody", b"hello") is None


def test_each_silo_has_a_socket_of_its_own_in_a_folder_of_its_user(monkeypatch, tmp_path):
    monkeypatch.setattr(_resident.tempfile, "gettempdir", lambda: str(tmp_path))
    paths = {
        socket_of(__name__, number, config)
        for number in (0, 1)
        for config in ({"hospital": "a"}, {"hospital": "b"})
    }
    assert len(paths) == 4
    (folder,) = {path.parent for path in paths}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    with pytest.raises(PermissionError, match="this user alone"):
        socket_of(__name__, 0, {})


APP = """
from skdpfl.flower._resident import GATES

class Gate:
    def __init__(self, config):
        self.name = config["hospital"]

    def answer(self, letter):
        return self.name.encode() + b" " + letter

GATES.append(Gate)
"""


@pytest.mark.slow
def test_a_process_that_was_left_behind_makes_the_same_gate(monkeypatch, tmp_path):
    (tmp_path / "an_app.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    leave_behind(tmp_path / "s", 2.0, "an_app", 0, {"hospital": "north"})
    end = time.monotonic() + 60
    while (answer := asked(tmp_path / "s", b"!")) is None:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert answer == b"north !"
