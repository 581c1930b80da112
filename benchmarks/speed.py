"""How fast a fit is, against peers and against bare NumPy: ``python benchmarks/speed.py``.

Three workloads (:mod:`benchmarks.speed_parts.workloads`), whole public calls, medians, contenders
in turns. Peers are installed into environments of their own under ``--envs``, about 1 GB each;
without ``--peers`` they are left out. ``--profile`` says where the time goes, ``--growth`` how time
grows with rounds, rows and silos, ``--sizes`` what large and odd sizes cost, ``--layouts`` what
other layouts than a C array cost, ``--memory`` how much memory fits take, to 4 GB on disk among
others. ``--write`` does all of it, peers included, and writes ``benchmarks/speed.md`` and the
picture in the documentation. ``--quick`` does everything but the peers at small sizes in half a
minute, to see that it runs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.speed_parts import bare, peers
from benchmarks.speed_parts.growth import draw, measure_growth
from benchmarks.speed_parts.layouts import measure_layouts
from benchmarks.speed_parts.memory import measure_memory
from benchmarks.speed_parts.odd_sizes import measure_odd_sizes
from benchmarks.speed_parts.timing import (
    Contender,
    RoundClock,
    header,
    in_new_process,
    load,
    table,
    take_turns,
    timed,
)
from benchmarks.speed_parts.where import profile
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


def sections(options: argparse.Namespace) -> Iterator[str]:
    """Yield what the command line asks for, in markdown."""
    sizes = QUICK if options.quick else Sizes()
    everything = options.quick or options.write
    asked = options.growth or options.layouts or options.profile or options.memory or options.sizes
    yield f"{header()}.\n"
    if everything or options.profile or not asked:
        data = [femnist(sizes), insurance(), many_silos(sizes)]
        yield f"Data: {', '.join(d.source for d in data)}.\n"
    if everything or not asked:
        yield from compare(data, sizes, options)
    if everything or options.profile:
        yield f"Where the processor time of our fits goes:\n\n{profile(data, sizes)}\n"
    if everything or options.growth:
        measured = measure_growth(options.quick)
        yield f"How fits grow (wall time, best of several):\n\n{measured.table()}\n\n{load()}\n"
        if options.picture:
            draw(measured, options.picture)
    if everything or options.layouts:
        table = measure_layouts(options.quick)
        yield f"Layouts (processor time, over a C array's of the dtype):\n\n{table}\n\n{load()}\n"
    if everything or options.sizes:
        yield f"Large and odd sizes:\n\n{measure_odd_sizes(options.quick)}\n\n{load()}\n"
    if everything or options.memory:
        yield f"Memory of whole processes:\n\n{measure_memory(options.quick)}\n"


def main() -> None:
    """Print what the command line asks for, and write it where that is asked for."""
    options = parser().parse_args()
    if options.write:
        options.peers, options.picture = True, options.picture or PICTURE
    parts = []
    for part in sections(options):
        print(part, flush=True)
        parts.append(part)
    if options.write:
        RESULTS.write_text("\n".join(parts))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, half a minute")
    parser.add_argument("--peers", action="store_true", help="Opacus and pfl as well")
    parser.add_argument("--growth", action="store_true", help="only how time grows")
    parser.add_argument("--layouts", action="store_true", help="only what layouts cost")
    parser.add_argument("--sizes", action="store_true", help="only large and odd sizes")
    parser.add_argument("--profile", action="store_true", help="only where the time goes")
    parser.add_argument("--memory", action="store_true", help="only how much memory fits take")
    parser.add_argument("--write", action="store_true", help="all of it, into files; half an hour")
    parser.add_argument("--picture", type=Path, help="where to draw the growth")
    default = Path.home() / ".cache" / "skdpfl-benchmarks"
    parser.add_argument("--envs", type=Path, default=default, help="where peers are installed")
    return parser


if __name__ == "__main__":
    main()
