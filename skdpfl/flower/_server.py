"""The server as a Flower app: it fits an estimator with the silos that it can reach."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Literal

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from skdpfl._pipelines import check_fits_elsewhere
from skdpfl.federation import Schema
from skdpfl.flower._courier import FlowerCourier
from skdpfl.remote import RemoteFederation


def server_app(
    estimator: Any,
    facts: Schema,
    *,
    finished: Callable[[Any, RemoteFederation, Mapping[str, Any]], None],
    on_missing: Literal["fail", "skip"] = "fail",
    masked: bool = False,
    timeout: float = 60.0,
    n_attempts: int = 3,
    patience: float = 0.0,
    journal: str | os.PathLike[str] | Callable[[Mapping[str, Any]], str] | None = None,
    line: str | Callable[[Mapping[str, Any]], str] | None = None,
) -> ServerApp:
    """Return the server's app.

    Parameters
    ----------
    estimator : estimator or function
        What to fit; a function is given Flower's run config and returns it. Classifiers need
        ``classes``. Pipelines and searches are refused, with what to do instead.
    facts : Schema
        What is public of the silos' records, their names above all.
    finished : callable
        ``finished(estimator, federation, run_config)`` is called with the fitted estimator, to
        keep it, and with its :class:`~skdpfl.remote.RemoteFederation`.
    on_missing : {"fail", "skip"}, default="fail"
        What to do in a round without some silos' answers
        (:class:`skdpfl.remote.RemoteFederation`).
    masked : bool, default=False
        Show the server the sum of a round's messages only
        (:class:`skdpfl.remote.RemoteFederation`).
    timeout : float, default=60.0
        Seconds to wait for answers.
    n_attempts : int, default=3
        How often a letter is sent.
    patience : float, default=0.0
        Seconds to wait for silos where a person has to say yes to a fit.
    journal : path-like or function, optional
        A file for one fit: a run after a server was killed goes on with it
        (:class:`skdpfl.remote.RemoteFederation`). A function is given Flower's run config and
        returns the path.
    line : str or function, optional
        ``host:port`` of this server, to which silos can connect: each opens one line there
        (TLS) for the length of a fit, and a round takes a tenth of a second instead of Flower's
        eight. A function is given Flower's run config.

    Returns
    -------
    ServerApp
        What ``flwr run`` runs.

    See Also
    --------
    gate_app : A silo's app.
    """
    app, made = ServerApp(), callable(estimator)
    if not made:
        check_fits_elsewhere(estimator)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        model: Any = estimator(config) if made else estimator
        check_fits_elsewhere(model)
        courier = FlowerCourier(grid, timeout=timeout, line=_said(line, config))
        federation = RemoteFederation(
            courier,
            facts,
            classes=getattr(model, "classes", None),
            estimator=type(model).__name__,
            on_missing=on_missing,
            masked=masked,
            n_attempts=n_attempts,
            patience=patience,
            journal=_said(journal, config),
        )
        with closing(courier):
            finished(model.fit_federation(federation, facts), federation, config)

    return app


def _said(value: Any, config: Mapping[str, Any]) -> Any:
    """Return what was given, or what a function says for a run."""
    return value(config) if callable(value) else value
