"""Letters over sockets: the same model, silos that leave and come back, wrong addresses."""

import contextlib
import socket
import threading

import pytest

from skdpfl.remote import SocketCourier, receive, send
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem

PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 3}


class Doors:
    """Each silo's gate behind a socket of its own."""

    def __init__(self, folder, *, leaves_after=None):
        self.here, self.paths = Here(folder, problem()), {}
        self.letters, self.leaves_after, self.problem = 0, leaves_after, problem()
        self.lock, self.doors = threading.Lock(), []
        for name in NAMES:
            door = socket.socket(socket.AF_UNIX)
            self.paths[name] = str(folder / f"{name}.socket")
            door.bind(self.paths[name])
            door.listen()
            self.doors.append(door)
            threading.Thread(target=self.serve, args=(name, door), daemon=True).start()

    def serve(self, name, door):
        with contextlib.suppress(OSError):
            while True:
                line = door.accept()[0]
                with line, contextlib.suppress(OSError):
                    self.answer(name, line)

    def answer(self, name, line):
        letter = receive(line)
        with self.lock:
            self.letters += 1
            if self.leaves_after == self.letters:
                return  # no answer: the line ends
            send(line, self.here.deliver({name: letter})[name])

    def close(self):
        for door in self.doors:
            door.shutdown(socket.SHUT_RDWR)
            door.close()


@pytest.fixture
def doors(tmp_path):
    made = []

    def make(**options):
        made.append(Doors(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Over(SocketCourier):
    """With the problem, from which the facts are made."""

    def __init__(self, doors, **options):
        super().__init__(doors.paths, **options)
        self.problem = doors.problem


def test_the_model_is_that_of_one_process(doors):
    there = fit_elsewhere(estimator(**PLAIN), Over(doors()))
    here = fit_here(estimator(**PLAIN), problem())
    assert (there.coef_ == here.coef_).all()
    assert (there.intercept_ == here.intercept_).all()


@pytest.mark.parametrize("at", [4, 7, 10])
def test_a_line_that_breaks_is_asked_again(doors, at):
    there = fit_elsewhere(estimator(**PLAIN), Over(doors(leaves_after=at)))
    assert (there.coef_ == fit_here(estimator(**PLAIN), problem()).coef_).all()


def test_another_silo_at_an_address_is_an_error(doors):
    behind = doors()
    first, second = NAMES[:2]
    behind.paths[first] = behind.paths[second]
    with pytest.raises(ValueError, match=f"silo '{first}' must be that; found '{second}'"):
        fit_elsewhere(estimator(**PLAIN), Over(behind))
