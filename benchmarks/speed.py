"""How fast a fit is, against peers and against bare NumPy: ``python benchmarks/speed.py``.

Three workloads (:mod:`benchmarks.speed_parts.workloads`), whole public calls, medians, contenders
in turns: ``--calls``, also without any option. Peers are installed into environments of their own
under ``--envs``, about 1 GB each; without ``--peers`` they are left out. Other options measure
fits against fits that might cost the same (uneven silos and even ones), searches and imports,
growth with rounds, rows and silos, and memory, to 4 GB on disk among others. ``--write`` puts each
section that was measured into its place in ``benchmarks/speed.md``; alone it measures all of them,
peers included. ``--quick`` does everything but the peers at small sizes in half a minute, to see
that it runs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.speed_parts import bare, peers
from benchmarks.speed_parts.growth import draw, measure_growth
from benchmarks.speed_parts.memory import measure_memory
from benchmarks.speed_parts.ratios import measure_ratios
from benchmarks.speed_parts.searches import measure_searches
from benchmarks.speed_parts.timing import (
    Contender,
    RoundClock,
    in_new_process,
    load,
    table,
    take_turns,
    timed,
)
from benchmarks.speed_parts.workloads import (
    QUICK,
    Data,
    Sizes,
    femnist,
    fit_w1,
    fit_w2,
    fit_w3,
    insurance,
    many_silos,
)
from benchmarks.tables import header

#: (options, sizes) -> pieces of markdown
Section = Callable[[argparse.Namespace, Sizes], Iterator[str]]
ROOT = Path(__file__).resolve().parents[1]
RESULTS, PICTURE = ROOT / "benchmarks" / "speed.md", ROOT / "docs" / "_static" / "speed.svg"
#: what a new process does before it fits W2 for the first time, or without any price known
FIRST = "from benchmarks.speed_parts.workloads import *; data = insurance()"
FORGOT = f"{FIRST}; fit_w2(data)\nfrom benchmarks.speed_parts.timing import *; forget_prices()"


def rounds_of_w1(data: Data, sizes: Sizes, n_jobs: int, **kw):
    """Return a run of three rounds, of which two are timed."""

    def run():
        clock = RoundClock()
        fit_w1(data, sizes, 3, n_jobs, callbacks=clock, **kw)
        return clock.rounds()

    return run


def contenders_w1(data: Data, sizes: Sizes) -> list[Contender]:
    """Return W1's contenders but the peers; a unit is a round."""
    ours = partial(Contender, "W1, a round")
    secret = {"random_state": None}
    poisson = {"sampling": "poisson"}
    return [
        ours("skdpfl", rounds_of_w1(data, sizes, 1)),
        ours("skdpfl", rounds_of_w1(data, sizes, 2), 2),
        ours("skdpfl", rounds_of_w1(data, sizes, 1, **secret), note="secret noise"),
        ours("skdpfl", rounds_of_w1(data, sizes, 1, **poisson), note="Poisson batches"),
        ours("bare NumPy", timed(bare.w1(data, sizes))),
        ours("bare NumPy", timed(bare.w1(data, sizes, 2)), 2),
    ]


def contenders_w2(data: Data) -> list[Contender]:
    """Return W2's contenders; a unit is a fit."""
    ours, fit = partial(Contender, "W2, a fit"), "fit_w2(data)"
    return [
        ours("skdpfl", timed(partial(fit_w2, data))),
        ours("skdpfl", timed(partial(fit_w2, data, random_state=None)), note="secret noise"),
        ours("skdpfl", timed(partial(fit_w2, data, n_rounds=100)), note="100 rounds"),
        ours("skdpfl", timed(partial(fit_w2, data, scaling="private")), note="private scaling"),
        ours("skdpfl", in_new_process(FORGOT, fit), note="prices not cached", repeats=5),
        ours("skdpfl", in_new_process(FIRST, fit), note="a process's first", repeats=5),
        ours("bare NumPy", timed(bare.w2(data))),
    ]


def contenders_w3(data: Data, sizes: Sizes) -> list[Contender]:
    """Return W3's contenders but the peer; a unit is a fit."""
    ours = partial(Contender, "W3, a fit")
    return [
        ours("skdpfl", timed(partial(fit_w3, data, sizes))),
        ours("skdpfl", timed(partial(fit_w3, data, sizes, random_state=None)), note="secret noise"),
        ours("bare NumPy", timed(bare.w3(data, sizes)), note="sorted in advance"),
    ]


def add_peers(groups: list[list[Contender]], data: list[Data], sizes: Sizes, envs: Path) -> None:
    """Put the peers into W1's and W3's groups."""
    where = Path(tempfile.mkdtemp())
    w1, w3 = where / "w1.npz", where / "w3.npz"
    peers.save(data[0], w1, cohort=sizes.w1_silos // 5)
    peers.save(data[2], w3, cohort=min(100, sizes.w3_silos), n_rounds=sizes.w3_rounds)
    python = peers.python_of("opacus", envs)
    numbers = sizes.w1_silos // 5, sizes.w1_steps, sizes.w1_records // 5
    name = "Opacus 1.6, ghost clipping"
    for threads in (1, 2):
        run = peers.Opacus(python, w1, threads, *numbers)
        most = 2 if threads > 1 else None  # they wait in loops for a busy core
        groups[0].append(Contender("W1, a round", name, run, threads, repeats=most))
    python = peers.python_of("pfl", envs)
    less = "no clipping or noise in local steps"
    groups[0].append(Contender("W1, a round", "pfl 0.6", peers.pfl(python, w1, "W1", 2), note=less))
    run = peers.pfl(python, w3, "W3", 1)
    groups[2].append(Contender("W3, a fit", "pfl 0.6", run, repeats=2))


def compare(data: list[Data], sizes: Sizes, options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of each workload's contenders."""
    groups = [contenders_w1(data[0], sizes), contenders_w2(data[1])]
    groups.append(contenders_w3(data[2], sizes))
    if options.peers:
        add_peers(groups, data, sizes, options.envs)
    repeats = (1, 3, 1) if options.quick else (5, 40, 7)
    for group, n in zip(groups, repeats, strict=True):
        take_turns(group, n)
        yield f"{table(group)}\n\n{load()}\n"


def calls(options: argparse.Namespace, sizes: Sizes) -> Iterator[str]:
    """Yield what whole calls take."""
    data = [femnist(sizes), insurance(), many_silos(sizes)]
    yield f"Data: {', '.join(d.source for d in data)}.\n"
    yield from compare(data, sizes, options)


def growth(options: argparse.Namespace, sizes: Sizes) -> Iterator[str]:
    """Yield how fits grow, and draw it."""
    measured = measure_growth(options.quick)
    yield f"How fits grow (wall time, best of several):\n\n{measured.table()}\n\n{load()}\n"
    if options.picture:
        draw(measured, options.picture)


def one_table(title: str, measure: Callable[[bool], str]) -> Section:
    """Return a section of one measurement."""

    def section(options: argparse.Namespace, sizes: Sizes) -> Iterator[str]:
        yield f"{title}:\n\n{measure(options.quick)}\n\n{load()}\n"

    return section


#: what can be measured, in the order of the file
SECTIONS: dict[str, Section] = {
    "calls": calls,
    "ratios": one_table("Fits that might be expected to cost the same", measure_ratios),
    "searches": one_table("Searches and imports", measure_searches),
    "growth": growth,
    "memory": one_table("Memory of whole processes", measure_memory),
}


def write(name: str, text: str) -> None:
    """Replace a section of the file with results; the others stay."""
    cut = re.split(r"<!-- (\w+) -->\n", RESULTS.read_text() if RESULTS.exists() else "")
    kept = dict(zip(cut[1::2], cut[2::2], strict=True)) | {name: f"{text.strip()}\n\n"}
    RESULTS.write_text("".join(f"<!-- {n} -->\n{kept[n]}" for n in SECTIONS if n in kept))


def main() -> None:
    """Print what the command line asks for, and write it where that is asked for."""
    options = parser().parse_args()
    asked = [name for name in SECTIONS if getattr(options, name)]
    if options.write and not asked:
        options.peers = True
    if options.write:
        options.picture = options.picture or PICTURE
    chosen = asked or (list(SECTIONS) if options.quick or options.write else ["calls"])
    for name in chosen:
        text = f"{header()}.\n\n"
        for part in SECTIONS[name](options, QUICK if options.quick else Sizes()):
            text += part + "\n"
        print(text, flush=True)
        if options.write and not options.quick:
            write(name, text)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--peers", action="store_true", help="Opacus and pfl as well")
    for name in SECTIONS:
        parser.add_argument(f"--{name}", action="store_true", help="this section")
    parser.add_argument("--write", action="store_true", help="into files; all of it: half an hour")
    parser.add_argument("--picture", type=Path, help="where to draw the growth")
    default = Path.home() / ".cache" / "skdpfl-benchmarks"
    parser.add_argument("--envs", type=Path, default=default, help="where peers are installed")
    return parser


if __name__ == "__main__":
    main()
