"""Which lines each test runs, and how long it takes: recorded once for each state of the tree.

Lines that run while modules and tests are imported are kept apart (``COLLECTED``): what is computed
there is not computed anew by a test.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks.mutant_parts.sites import ROOT

COLLECTED = "imports and collection"
#: seconds of tests that are run before others
QUICK = 0.004
#: calls of one function within a test whose lines are looked at
CALLS = 100


class Lines:
    """The lines of some files that ran since the last ``take``."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = {str(ROOT / f): f for f in files}
        self._seen: dict[CodeType, set[int]] = {}
        self._calls: dict[CodeType, int] = defaultdict(int)

    def start(self) -> None:
        """Look at all lines from here on."""
        threading.settrace(self._call)
        sys.settrace(self._call)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._files or self._calls[code] >= CALLS:
            return None
        self._calls[code] += 1
        seen = self._seen.setdefault(code, set())

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                seen.add(frame.f_lineno)
            return line

        return line

    def take(self) -> dict[str, list[int]]:
        """Return the lines of each file, and forget them."""
        found: dict[str, set[int]] = defaultdict(set)
        for code, lines in self._seen.items():
            found[self._files[code.co_filename]] |= lines
        self._seen.clear()
        self._calls.clear()
        return {file: sorted(lines) for file, lines in found.items()}


#: which tests take part; `--slow` empties it
MARK = ["-m", "not slow"]


class Recorder:
    """A pytest plugin that writes what each test reaches to a file."""

    def __init__(self, files: Iterable[str], out: Path) -> None:
        self.lines, self.out = Lines(files), out
        self.found: dict[str, Any] = {}
        self.failed: set[str] = set()
        self.lines.start()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Leave out tests that fail as it is."""
        if report.failed or (report.skipped and report.when == "setup"):
            self.failed.add(report.nodeid)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run all tests and write down the lines of each."""
        self.found[COLLECTED] = {"seconds": 0.0, "lines": self.lines.take()}
        items = session.items
        for item, following in zip(items, [*items[1:], None], strict=True):
            start = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds, lines = time.process_time() - start, self.lines.take()
            if lines and item.nodeid not in self.failed:
                self.found[item.nodeid] = {"seconds": round(seconds, 3), "lines": lines}
        sys.settrace(None)
        self.out.write_text(json.dumps(self.found))
        return True


def digest_of(files: Iterable[Path]) -> str:
    """Return a digest of files' contents."""
    total = hashlib.sha256()
    for file in files:
        total.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return total.hexdigest()


class Reach:
    """What was recorded: tests by file and line."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        self.seconds = {name: test["seconds"] for name, test in recorded.items()}
        self._by_line: dict[tuple[str, int], list[str]] = defaultdict(list)
        for name, test in recorded.items():
            for file, lines in test["lines"].items():
                for line in lines:
                    self._by_line[file, line].append(name)

    def tests_of(self, file: str, lines: Iterable[int]) -> list[str]:
        """Return the tests that run some of these lines.

        Those of a few milliseconds come first, then each function's fastest case.
        """
        found = {name for line in lines for name in self._by_line.get((file, line), ())}
        fast = sorted(found, key=lambda name: (self.seconds[name], name))
        turns: Counter[str] = Counter()
        order = {}
        for name in fast:
            function = name.split("[")[0]
            order[name] = turns[function] * (self.seconds[name] > QUICK), self.seconds[name], name
            turns[function] += 1
        return sorted(fast, key=order.__getitem__)
