"""Small letters cost little, and each limit of the table is kept, in words."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from skdpfl.remote import receive, send

# ---- the whole silo, in a process with little memory -------------------------------------------


def seconds_of_a_loop():
    begin, total = time.process_time(), 0
    for i in range(5_000_000):
        total += i
    return time.process_time() - begin


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_hostile_letters_take_a_second_and_64_megabytes(tmp_path):
    """Those that took a minute or gigabytes, and letters with extreme values somewhere."""
    count = 100
    command = [sys.executable, "-m", "tests.remote.hostile_letters", tmp_path, 0, count]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(
        list(map(str, command)),
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "MemoryError" not in ran.stderr
    took = json.loads(ran.stdout)
    assert len(took) > count + 30
    seconds = max(2.0, 7 * seconds_of_a_loop())  # one second where nothing else runs
    assert not [each for each in took if each[2] > seconds]
    answered = {each[0]: each[4] for each in took}
    assert answered["50,000 rounds"] == "Agreement"  # and not refused for another reason


# ---- and beside it ------------------------------------------------------------------------------


def test_a_long_letter_is_received_in_one_go():
    """128 MB took 29 s when each piece was copied with all before it."""
    letter, got = bytes(2**27), []
    one, other = socket.socketpair()
    with one, other:
        reader = threading.Thread(target=lambda: got.append(receive(other)))
        begin = time.process_time()
        reader.start()
        send(one, letter)
        reader.join()
        assert time.process_time() - begin < 3
    assert got == [letter]


def test_a_length_that_was_announced_takes_no_memory():
    one, other = socket.socketpair()
    with other:
        with one:
            one.sendall((2**29).to_bytes(8, "little") + b"x")
        with pytest.raises(OSError, match="closed the connection"):
            receive(other)
