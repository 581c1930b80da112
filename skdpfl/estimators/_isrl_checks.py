"""Which solvers of ISRL-DP go with which other parameters."""

from __future__ import annotations

from typing import Any

from skdpfl._arguments import check_choice, is_auto
from skdpfl.estimators._solvers import SOLVERS


def check_solver(estimator: Any) -> None:
    """Raise for a solver that does not exist or does not go with the other parameters."""
    solver = estimator.solver
    check_choice("solver", solver, SOLVERS)
    if solver == "multistage" and not estimator.alpha > 0:
        raise ValueError(
            'solver="multistage" is for strongly convex objectives: give alpha > 0 (got '
            f'alpha={estimator.alpha!r}), or use solver="accelerated".'
        )
    if solver == "local" and estimator.trust != "silo":
        raise ValueError(
            'solver="local" sends more than one fresh gradient a round, so only noise in the silos '
            f'protects it: trust must be "silo"; got {estimator.trust!r}. The other solvers take '
            "any trust."
        )
    if solver != "local" and not is_auto(estimator.local_steps):
        raise ValueError(
            f'local_steps={estimator.local_steps!r} is for solver="local"; solver={solver!r} takes '
            'one gradient a round. Leave it "auto".'
        )


def check_shuffler(estimator: Any) -> None:
    """Raise for what does not go with shuffled messages."""
    solver, sampling = estimator.solver, estimator.sampling
    if solver in ("accelerated", "multistage") and sampling != "disjoint":
        raise ValueError(
            f'trust="shuffler" with solver={solver!r} makes one pass over the data: give '
            f'sampling="disjoint" (got {sampling!r}), or use solver="minibatch".'
        )
    if estimator.neighbours == "add_remove":
        raise ValueError(
            'trust="shuffler" is priced under neighbours="replace" only; got "add_remove".'
        )
    if not (isinstance(estimator.silo_weights, str) and estimator.silo_weights in ("auto", "size")):
        raise ValueError(
            'trust="shuffler" counts every record alike, since messages have no sender: '
            f'silo_weights must be "auto" or "size"; got {estimator.silo_weights!r}.'
        )
