"""A verdict on each mutant, in a forked process that has imported everything already.

The changed function's code takes the place of the old one, or, where the change is run on import, a
bare process imports the changed module. Tests that run the line go from fast to slow until one
fails. A test that takes far longer than it should is stopped: the mutant has died, by its time.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import os
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from benchmarks.mutant_parts.reach import COLLECTED, Reach
from benchmarks.mutant_parts.sites import ROOT, Mutant, function_codes, module_code

#: what a process says when it ends
SURVIVED, KILLED, LIMIT, UNFOUND = range(4)
#: bytes that a mutant may ask for on top of what is there
ROOM = 3 << 30
LIBRARY = str(ROOT / "skdpfl")


class Judge:
    """A pytest plugin whose tests are run by ``decide``, in forked processes."""

    def __init__(self, decide: Callable[[Judge], None]) -> None:
        self._decide, self.failed, self.items = decide, "", {}

    def pytest_collection(self, session: Any) -> None:
        """Have property tests try the same examples each time, without looking for small ones."""
        from hypothesis import Phase, settings

        settings.register_profile(
            "mutants", deadline=None, database=None, derandomize=True,
            phases=(Phase.explicit, Phase.generate),
        )  # fmt: skip
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """End with the first failure."""
        if report.failed:
            os._exit(KILLED)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Hand over."""
        self.items = {item.nodeid: item for item in session.items}
        self._decide(self)
        return True

    def run(self, tests: list[str], seconds: dict[str, float], limit: float) -> None:
        """Run tests until one fails; do not return."""
        start = time.process_time()
        for name in tests:
            if time.process_time() - start > limit:
                os._exit(LIMIT)
            item = self.items.get(name)
            if item is not None:
                # recorded times are those of a traced run
                signal.setitimer(signal.ITIMER_PROF, 5 + 5 * seconds[name])
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                signal.setitimer(signal.ITIMER_PROF, 0)
        os._exit(SURVIVED)


def pytest_in(files: list[str], decide: Callable[[Judge], None]) -> int:
    """Collect the tests of some files and decide."""
    return int(
        pytest.main(
            ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow",
             "--tb=no", "-s", *files],
            plugins=[Judge(decide)],
        )
    )  # fmt: skip


def forked(work: Callable[[], None]) -> str:
    """Run something in a forked process and return its verdict."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            log = os.environ.get("SKDPFL_MUTANTS_LOG", os.devnull)
            quiet = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(KILLED)  # an error on the way
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) == signal.SIGPROF else "killed"
    ends = {SURVIVED: "survived", LIMIT: "limit", UNFOUND: "unfound"}
    return ends.get(os.WEXITSTATUS(status), "killed")


class Live:
    """The functions and caches of the library in this process."""

    def __init__(self) -> None:
        self._functions: dict[CodeType, list[FunctionType]] = defaultdict(list)
        self._cached = []
        for what in gc.get_objects():
            if isinstance(what, FunctionType) and what.__code__.co_filename.startswith(LIBRARY):
                self._functions[what.__code__].append(what)
            elif isinstance(what, _lru_cache_wrapper):
                self._cached.append(what)
        gc.freeze()

    def put(self, pairs: list[tuple[CodeType, CodeType]]) -> bool:
        """Give functions their new code; return whether one was found for each."""
        for old, new in pairs:
            for function in self._functions.get(old, ()):
                function.__code__ = new
        for cached in self._cached:
            if str(getattr(cached, "__module__", "")).startswith("skdpfl"):
                cached.cache_clear()
        return all(old in self._functions for old, _ in pairs)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module from other code."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = ".".join(Path(mutant.file).with_suffix("").parts).removesuffix(".__init__")
        self._path, self._code = str(ROOT / mutant.file), module_code(mutant)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Return a spec of this module, none of others."""
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        spec.loader = self
        return spec

    def get_source(self, fullname: str) -> str:
        """Return the source as it was."""
        return Path(self._path).read_text()

    def get_code(self, fullname: str) -> CodeType:
        """Return the changed code."""
        return self._code


def verdicts(
    mutants: list[Mutant], reach: Reach, files: list[str], limit: float
) -> Iterator[tuple[Mutant, str, float]]:
    """Yield each mutant's verdict and the seconds it took; those on import come last."""
    inside: list[tuple[Mutant, Any, list[str]]] = []
    outside: list[tuple[Mutant, list[str]]] = []
    for mutant in mutants:
        tests = reach.tests_of(mutant.file, mutant.lines)
        pairs = function_codes(mutant)
        if pairs == []:
            yield mutant, "same code", 0.0
        elif pairs is None or COLLECTED in tests:
            every = range(1, 10**4) if pairs is None else mutant.lines
            tests = [t for t in reach.tests_of(mutant.file, every) if t != COLLECTED]
            outside.append((mutant, tests))
        elif not tests:
            yield mutant, "not run", 0.0
        else:
            inside.append((mutant, pairs, tests))
    yield from _inside(inside, reach, files, limit)
    for mutant, tests in outside:
        start = time.monotonic()
        some = tests[:150]
        places = sorted({t.split("::")[0] for t in some})

        def work(mutant: Mutant = mutant, some: list[str] = some, places: Any = places) -> None:
            sys.meta_path.insert(0, Changed(mutant))
            pytest_in(places, lambda judge: judge.run(some, reach.seconds, limit))

        yield mutant, forked(work) if some else "not run", time.monotonic() - start


def _inside(
    rows: list[tuple[Mutant, Any, list[str]]], reach: Reach, files: list[str], limit: float
) -> Iterator[tuple[Mutant, str, float]]:
    """Judge mutants of functions, in a process that collects the tests once."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)

        def decide(judge: Judge) -> None:
            live = Live()
            some = [tests[0] for _, _, tests in rows]
            as_it_is = forked(lambda: judge.run(some, reach.seconds, limit))
            assert as_it_is in ("survived", "limit"), "tests fail without a change"
            for i, (_, pairs, tests) in enumerate(rows):
                start = time.monotonic()

                def work(pairs: Any = pairs, tests: Any = tests) -> None:
                    if not live.put(pairs):
                        os._exit(UNFOUND)
                    judge.run(tests, reach.seconds, limit)

                found = forked(work)
                os.write(writing, f"{i} {found} {time.monotonic() - start}\n".encode())
            os._exit(0)

        pytest_in(files, decide)
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            i, found, seconds = line.split()
            yield rows[int(i)][0], found, float(seconds)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the tests cannot be collected, or fail without a change")
