"""More of tests/estimators/test_verbose.py: what only private names show."""

import io
import sys

from skdpfl.estimators import _progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_plain_bar_stays_on_one_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(_progress, "PAUSE", 0.0)
    bar = _progress.PlainBar("Name", 4)
    for _ in range(4):
        bar.advance()
    bar.close()
    states = terminal.getvalue().split("\r")
    assert len(states) == 6 and terminal.getvalue().count("\n") == 1
    assert [s.split("]")[1].split()[0] for s in states[1:]] == ["1/4", "2/4", "3/4", "4/4", "4/4"]
    assert states[2].count("#") == _progress.WIDTH / 2
