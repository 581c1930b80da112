"""How fast a fit is, against peers and against bare NumPy: ``python benchmarks/speed.py``.

Three workloads (:mod:`benchmarks.speed_parts.workloads`), whole public calls, medians, contenders
in turns. Peers are installed into environments of their own under ``--envs``, about 1 GB each;
without ``--peers`` they are left out. ``--growth`` measures how time grows with rows and silos and
draws it, ``--profile`` says where the time goes, ``--quick`` does everything but the peers at small
sizes in half a minute, to see that it runs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.speed_parts import bare, peers
from benchmarks.speed_parts.growth import draw, measure_growth
from benchmarks.speed_parts.timing import Contender, RoundClock, header, table, take_turns, timed
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
    ]


def contenders_w2(data: Data) -> list[Contender]:
    """Return W2's contenders; a unit is a fit."""
    ours = partial(Contender, "W2, a fit")
    return [
        ours("skdpfl", timed(partial(fit_w2, data))),
        ours("skdpfl", timed(partial(fit_w2, data, random_state=None)), note="secret noise"),
        ours("skdpfl", timed(partial(fit_w2, data, n_rounds=100)), note="100 rounds"),
        ours("skdpfl", timed(partial(fit_w2, data, scaling="private")), note="private scaling"),
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
        groups[0].append(Contender("W1, a round", name, run, threads))
    python = peers.python_of("pfl", envs)
    less = "no clipping or noise in local steps"
    groups[0].append(Contender("W1, a round", "pfl 0.6", peers.pfl(python, w1, "W1", 2), note=less))
    groups[2].append(Contender("W3, a fit", "pfl 0.6", peers.pfl(python, w3, "W3", 1)))


def compare(data: list[Data], sizes: Sizes, options: argparse.Namespace) -> None:
    """Print the table of all contenders."""
    groups = [contenders_w1(data[0], sizes), contenders_w2(data[1])]
    groups.append(contenders_w3(data[2], sizes))
    if options.peers:
        add_peers(groups, data, sizes, options.envs)
    repeats = (1, 3, 1) if options.quick else (5, 40, 7)
    for group, n in zip(groups, repeats, strict=True):
        take_turns(group, n)
        print(table(group), flush=True)


def main() -> None:
    """Do what the command line asks for."""
    options = parser().parse_args()
    sizes = QUICK if options.quick else Sizes()
    print(header(), flush=True)
    data = [femnist(sizes), insurance(), many_silos(sizes)]
    print(f"data: {', '.join(d.source for d in data)}\n")
    if options.quick or not (options.growth or options.profile):
        compare(data, sizes, options)
    if options.quick or options.profile:
        print(profile(data, sizes), flush=True)
    if options.quick or options.growth:
        measured = measure_growth(options.quick)
        print(measured.table())
        if options.picture:
            draw(measured, options.picture)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, half a minute")
    parser.add_argument("--peers", action="store_true", help="Opacus and pfl as well")
    parser.add_argument("--growth", action="store_true", help="only how time grows")
    parser.add_argument("--profile", action="store_true", help="only where the time goes")
    parser.add_argument("--picture", type=Path, help="where to draw the growth")
    default = Path.home() / ".cache" / "skdpfl-benchmarks"
    parser.add_argument("--envs", type=Path, default=default, help="where peers are installed")
    return parser


if __name__ == "__main__":
    main()
