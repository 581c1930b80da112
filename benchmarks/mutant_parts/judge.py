"""A verdict on each mutant, in a forked process that has imported everything already.

The changed function's code takes the place of the old one, or, where the change is run on import, a
bare process imports the changed module. Tests that run the line go from fast to slow until one
fails; those that killed mutants of the file before go first. A test that takes far longer than it
should is stopped: the mutant has died, by its time. In the end every test that killed a mutant is
run without a change: where it fails, its mutants have not died.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutant_parts.live import Changed, Live
from benchmarks.mutant_parts.reach import COLLECTED, MARK, Reach
from benchmarks.mutant_parts.sites import Mutant, function_codes

#: what a process says when it ends
SURVIVED, KILLED, LIMIT, UNFOUND = range(4)
#: where a forked process says which test has failed
TOLD = 198
#: bytes that a mutant may ask for on top of what is there
ROOM = 3 << 30


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: by which test, after how many seconds."""

    mutant: Mutant
    found: str
    seconds: float = 0.0
    by: str = ""


class Judge:
    """A pytest plugin whose tests are run by ``decide``, in forked processes."""

    def __init__(self, decide: Callable[[Judge], None]) -> None:
        self._decide = decide
        self.items: dict[str, Any] = {}

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
            os.write(TOLD, report.nodeid.encode())
            os._exit(KILLED)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Hand over, unless a file of tests cannot be imported."""
        if session.testsfailed:
            os._exit(KILLED)
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


def pytest_in(files: list[str], plugin: object) -> None:
    """Collect the tests of some files, and let the plugin run them."""
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", *MARK, "--tb=no", "-s"]
    pytest.main([*options, *files], plugins=[plugin])


def forked(work: Callable[[], None]) -> tuple[str, str]:
    """Run something in a forked process; return its verdict and the test that failed."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            os.dup2(writing, TOLD)
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
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reading) as told:
        by = told.read()
    if os.WIFSIGNALED(status):
        return ("timeout" if os.WTERMSIG(status) == signal.SIGPROF else "killed"), by
    ends = {SURVIVED: "survived", LIMIT: "limit", UNFOUND: "unfound"}
    return ends.get(os.WEXITSTATUS(status), "killed"), by


def verdicts(
    mutants: list[Mutant], reach: Reach, files: list[str], limit: float
) -> Iterator[Verdict]:
    """Yield each mutant's verdict; those on import come last.

    What runs on import and in tests is changed for the tests first, which is cheaper; a mutant that
    survives this is judged on import as well.
    """
    inside: list[tuple[Mutant, Any, list[str]]] = []
    outside: list[tuple[Mutant, list[str]]] = []
    for mutant in mutants:
        pairs = function_codes(mutant)
        tests = reach.tests_of(mutant.file, mutant.lines)
        on_import = pairs is None or tests == [COLLECTED]  # any test may meet its result
        if pairs == []:
            yield Verdict(mutant, "same code")
        elif on_import:
            every = reach.tests_of(mutant.file, range(1, 10**4))
            outside.append((mutant, [t for t in every if t != COLLECTED]))
        elif not tests:
            yield Verdict(mutant, "not run")
        else:
            inside.append((mutant, pairs, tests))
    for verdict in _inside(inside, reach, files, limit) if inside else ():
        tests = reach.tests_of(verdict.mutant.file, verdict.mutant.lines)
        if verdict.found in ("killed", "timeout") or COLLECTED not in tests:
            yield verdict
        else:
            outside.append((verdict.mutant, [t for t in tests if t != COLLECTED]))
    for mutant, tests in outside:
        start = time.monotonic()

        def work(mutant: Mutant = mutant, tests: list[str] = tests) -> None:
            sys.meta_path.insert(0, Changed(mutant))
            places = sorted({t.split("::")[0] for t in tests})
            pytest_in(places, Judge(lambda judge: judge.run(tests, reach.seconds, limit)))

        found, by = forked(work) if tests else ("not run", "")
        yield Verdict(mutant, found, time.monotonic() - start, by)


def _inside(
    rows: list[tuple[Mutant, Any, list[str]]], reach: Reach, files: list[str], limit: float
) -> Iterator[Verdict]:
    """Judge mutants of functions, in a process that collects the tests once."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)

        def decide(judge: Judge) -> None:
            live, kills = Live(), Counter[tuple[str, str]]()
            for i, (mutant, pairs, tests) in enumerate(rows):
                start = time.monotonic()
                tests = sorted(tests, key=lambda t, f=mutant.file: -kills[f, t])  # type: ignore[misc]

                def work(pairs: Any = pairs, tests: Any = tests) -> None:
                    if not live.put(pairs):
                        os._exit(UNFOUND)
                    judge.run(tests, reach.seconds, limit)

                found, by = forked(work)
                kills[mutant.file, by] += 1
                line = f"{i}\t{found}\t{time.monotonic() - start}\t{by}\n"
                os.write(writing, line.encode())
            os._exit(0)

        pytest_in(files, Judge(decide))
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            i, found, seconds, by = line.removesuffix("\n").split("\t")
            yield Verdict(rows[int(i)][0], found, float(seconds), by)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the tests cannot be collected")


def checked(found: list[Verdict], reach: Reach, files: list[str]) -> Iterator[Verdict]:
    """Yield the verdicts that do not hold, since their test fails without a change as well."""
    left = sorted({v.by for v in found if v.by})
    again = Judge(lambda judge: judge.run(left, reach.seconds, 1e9))
    while left:
        end, by = forked(lambda: pytest_in(files, again))
        if end == "survived":
            return
        if by not in left:
            raise RuntimeError("the tests cannot be collected, or take far too long")
        left.remove(by)
        yield from (replace(v, found="unsure") for v in found if v.by == by)
