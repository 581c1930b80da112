"""Fits that can continue after a crash: their state is on disk, round by round.

Order of events, each on disk before the next one begins::

    the fit is charged to ledgers;  its schedule and noise levels;  each answer to a question;  the
    noise that the server adds to it;  each round

A file is replaced atomically. It holds answers, the model, the algorithm's state, and the silos'
states (:meth:`skdpfl.federation.Silo.save`), so it is as secret as the records. Callbacks run after
a round is on disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

from skdpfl._apart import anew
from skdpfl._durable import hold, let_go, replace_file
from skdpfl.algorithms import Algorithm, Released
from skdpfl.engine import Progress
from skdpfl.estimators._data import DataSource
from skdpfl.federation import Federation, LocalFederation, Named, Question, Silo, Work
from skdpfl.models import Model
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Shape, Streams
from skdpfl.privacy.randomness.words import Silos
from skdpfl.privacy.spending.ledger import PAID_FOR
from skdpfl.remote import WireError, declare, pack, unpack

#: the silos' answers to a question: those of the first time
Ask = Callable[[Federation, Question], list[tuple[Any, Any]]]


class KeptNoise(Streams):
    """Random streams that draw each block of noise once, even if the fit continues elsewhere.

    ``keep`` writes the blocks in ``drawn`` to disk before they are used.
    """

    def __init__(
        self, streams: Streams, drawn: dict[str, np.ndarray], keep: Callable[[], None]
    ) -> None:
        super().__init__(streams._source)
        self._drawn, self._keep = drawn, keep

    def units_block(
        self, purpose: str, silos: Silos, round: int, shape: Shape, dtype: DTypeLike = np.float32
    ) -> np.ndarray:
        name = f"{purpose} {round}"
        if name not in self._drawn:
            self._drawn[name] = super().units_block(purpose, silos, round, shape, dtype)
            self._keep()
        return self._drawn[name].copy()


class Resumable(Federation):
    """Silos in this process that can be saved and started again."""

    def __init__(self, inner: LocalFederation, ask: Ask) -> None:
        self._inner, self._ask = inner, ask

    @property
    def n_silos(self) -> int:
        return self._inner.n_silos

    @property
    def data(self) -> Any:
        """The records."""
        return self._inner.data

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from self._ask(self._inner, question)

    def start(self, work: Work) -> None:
        self._inner.start(work)

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from self._inner.round(round, shared, cohort, clip_norm)

    def on_release(self, round: int, released: Released) -> None:
        self._inner.on_release(round, released)

    def save(self) -> tuple[dict[str, Any], ...]:
        """Return the states of the silos that took part."""
        took_part = np.flatnonzero(self._inner.states.n_answered).tolist()
        return tuple(Silo(self._inner, i).save() for i in took_part)

    def resume(self, work: Work, silos: tuple[dict[str, Any], ...]) -> None:
        """Start the silos, and restore their saved states."""
        self._inner.start(work)
        for saved in silos:
            Silo(self._inner, int(saved["index"])).restore(saved)


declare(Named, Progress)

#: fields of a plan that follow from the draw of its schedule
_DRAWN_FIELDS = "schedule", "noise_multiplier", "sampling"

_OPEN: ContextVar[Checkpoint | None] = ContextVar("skdpfl_checkpoint", default=None)


class Checkpoint:
    """Keep the state of a fit on disk, so that it can continue after a crash.

    Run the same code again: if the file exists, the fit continues after its last round, or returns
    the finished model. It is charged once to each ledger.

    Parameters
    ----------
    path : str or path
        The file, for one fit. Only its owner can read it: it is as secret as the records. Delete it
        when the model is stored elsewhere.

    Notes
    -----
    **Formal guarantee.** Nobody sees a round's noise before the round is on disk, and a round on
    disk is not run again. The same holds for estimates of scales, and for the noise that a trusted
    server adds to them. So each release happens once, with the schedule and the noise that were
    priced (a fit that would release anything else is refused), and with an integer ``random_state``
    the model is that of a fit without a crash, bit for bit. Without one, rounds after a crash draw
    from a fresh secret. Each open ledger counts the fit once; a ledger that was not open before
    counts it when the fit continues. A fit that is killed between its charge and its first file is
    charged again: never too little. A file can be used by one block at a time (there is a lock file
    beside it). A second block, in any process, is refused, since two fits that continue from one
    file would release its next rounds twice. Do not restore an old copy of the file: it would
    repeat rounds with other noise.

    Examples
    --------
    >>> import os, tempfile
    >>> from skdpfl import Checkpoint, ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 200, n_classes=2, n_features=5, random_state=0)
    >>> path = os.path.join(tempfile.mkdtemp(), "fit")
    >>> with Checkpoint(path):
    ...     clf = ISRLDPClassifier(epsilon=2.0, feature_bounds=(-9, 9))
    ...     clf = clf.fit(data.data, data.target, silos=data.silos)
    >>> with Checkpoint(path):  # nothing is computed or charged again
    ...     same = ISRLDPClassifier(epsilon=2.0, feature_bounds=(-9, 9))
    ...     same = same.fit(data.data, data.target, silos=data.silos)
    >>> bool((same.coef_ == clf.coef_).all())
    True

    See Also
    --------
    skdpfl.privacy.PrivacyLedger : One budget for many fits.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))  # without links, so that each file has one name
        self._lock: int | None = None
        self._owner = -1
        self._token: Token[Checkpoint | None] | None = None

    def __enter__(self) -> Checkpoint:
        lock = self._held()
        self._lock, self._owner, self._token = lock, os.getpid(), _OPEN.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _OPEN.reset(self._token)
        # a forked process leaves the lock to its parent
        if self._lock is not None and self._owner == os.getpid():
            let_go(self.path, self._lock)

    def _held(self) -> int | None:
        """Lock the file; None if its folder is not writable, so that no fit can use it."""
        try:
            return hold(self.path)
        except BlockingIOError as error:
            raise ValueError(
                f"The checkpoint {self.path} is in use by another process, or by a block around "
                "this one. Two fits that continue from one file would release its next rounds "
                "twice, and pay once. Wait until the other one has ended."
            ) from error
        except OSError as error:
            writable = error.errno != errno.EROFS and os.access(self.path.parent, os.W_OK)
            if not writable and self.path.exists():
                return None  # a fit that has ended can be read
            raise OSError(
                error.errno,
                f"The checkpoint {self.path} cannot be locked ({error.strerror}). Give a path in a "
                "folder that can be written, on a file system with locks",
            ) from error

    def check_owner(self) -> None:
        """Raise in a process that was forked inside the block."""
        if self._owner != os.getpid():
            raise ValueError(
                f"The checkpoint {self.path} was opened by the parent of this forked process; both "
                "would continue from one file. Open another path here."
            )


class KeptFit:
    """The state on disk of one fit; empty without a :class:`Checkpoint`."""

    def __init__(self, path: Path | None, fit: str) -> None:
        self.path, self._fit = path, fit
        self._saved: dict[str, Any] = {} if path is None else _read(path, fit)
        self._answers = list(self._saved.get("answers", ()))
        #: the last round on disk, and the ledgers to which the fit was charged already
        self.progress: Progress | None = self._saved.get("progress")
        self.paid_to: tuple[str, ...] = tuple(self._saved.get("paid to", ()))
        self._asked = 0
        self._noise: dict[str, np.ndarray] = dict(self._saved.get("noise", {}))

    @classmethod
    def of(cls, estimator: Any, data: DataSource, model: Model, algorithm: Algorithm) -> KeptFit:
        """Return the state that the open :class:`Checkpoint` holds of a fit."""
        opened = _OPEN.get()
        if opened is None:
            return cls(None, "")
        opened.check_owner()
        if vars(estimator).get(PAID_FOR):  # whichever run: how many there are is a secret
            raise ValueError(
                "A Checkpoint is for one fit, and a search makes several. Run the "
                "search without it."
            )
        digest = data.digest()
        if digest is None:
            raise ValueError(
                "A Checkpoint is for silos in this process; remote silos keep their own state. "
                "Leave it out."
            )
        named = f"{type(estimator).__name__} {_in_full(estimator.get_params())} {digest}"
        named += _without_addresses(model.architecture)
        _declare_states(algorithm, model.size)
        return cls(opened.path, hashlib.blake2b(named.encode(), digest_size=16).hexdigest())

    def planned(self, plan: PrivacyPlan) -> PrivacyPlan:
        """Return the plan with which the fit began: noise depends on the drawn schedule."""
        if not self._saved:
            return plan
        fields = {name: self._saved[name] for name in _DRAWN_FIELDS if name in self._saved}
        plan = replace(plan, **fields)
        if self._saved.get("released") != _digest_of(plan):
            raise _other_fit(self.path)
        return plan

    def begin(self, plan: PrivacyPlan, paid_to: tuple[str, ...]) -> None:
        """Store which ledgers the fit was charged to."""
        if self.path is None or (self._saved and paid_to == self.paid_to):
            return
        self._saved |= {name: getattr(plan, name) for name in _DRAWN_FIELDS}
        self._saved |= {"fit": self._fit, "released": _digest_of(plan), "paid to": paid_to}
        self._write()

    def noise(self, streams: Streams) -> Streams:
        """Return the server's noise streams for setup sums, stored with the answers."""
        return streams if self.path is None else KeptNoise(streams, self._noise, self._write)

    def over(self, federation: Federation) -> Federation:
        """Return silos that store their answers."""
        if self.path is None:
            return federation
        assert isinstance(federation, LocalFederation)
        return Resumable(federation, self.ask)

    def ask(self, federation: Federation, question: Question) -> list[tuple[Any, Any]]:
        """Return the silos' answers; if they are stored, those."""
        number, self._asked = self._asked, self._asked + 1
        if number == len(self._answers):
            self._answers.append(tuple(federation.ask(question)))
            self._write()
        return list(self._answers[number])

    def keep(self, federation: Federation, progress: Progress) -> None:
        """Write a round to disk."""
        assert isinstance(federation, Resumable)
        self.progress, self._saved["silos"] = progress, federation.save()
        self._write()

    def restore(self, federation: Federation, work: Work) -> None:
        """Restore the silos' states."""
        assert isinstance(federation, Resumable)
        federation.resume(work, self._saved["silos"])

    def _write(self) -> None:
        assert self.path is not None
        self._saved |= {"answers": tuple(self._answers), "progress": self.progress}
        self._saved |= {"noise": self._noise}
        try:
            replace_file(self.path, pack(self._saved))
        except OSError as error:
            raise OSError(
                error.errno,
                f"The checkpoint {self.path} cannot be written ({error.strerror}). The fit "
                "stops, since it could not be continued after the next round. Its last state is "
                "kept: free disk space, and fit again with the same checkpoint; nothing is "
                "charged twice",
            ) from error


def _declare_states(algorithm: Algorithm, size: int) -> None:
    """Declare the classes of an algorithm's states; raise if a file cannot keep them."""
    algorithm = anew(algorithm)()
    before = algorithm.init(np.zeros(size))
    after = algorithm.aggregate(before, Released(np.zeros(size), 1.0, 1.0, 1.0, 0.5))
    try:
        declare(*_classes_in((before, after)))
        pack((before, after))
    except (WireError, TypeError, ValueError) as error:
        raise ValueError(
            f"A Checkpoint cannot keep the state of {type(algorithm).__name__}: {error} States "
            "consist of arrays, numbers, text, tuples, mappings, named tuples and dataclasses."
        ) from error


def _classes_in(state: Any) -> Iterator[type]:
    """Yield the named tuples and dataclasses in a state."""
    named = tuple(getattr(state, "_fields", getattr(state, "__dataclass_fields__", ())))
    if named and not isinstance(state, type):
        yield type(state)
        state = [getattr(state, name) for name in named]
    if isinstance(state, Mapping):
        state = list(state.values())
    if isinstance(state, tuple | list):
        for part in state:
            yield from _classes_in(part)


def _in_full(params: dict[str, Any]) -> str:
    """Return parameters as text, with arrays and tables in full."""
    tables = {"max_rows": None, "max_columns": None, "max_colwidth": None, "precision": 17}
    options = [part for name, most in tables.items() for part in (f"display.{name}", most)]
    with (
        np.printoptions(threshold=sys.maxsize, floatmode="unique"),
        pd.option_context(*options, "display.show_dimensions", False),
    ):
        return _without_addresses(repr(sorted(params.items())))


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _read(path: Path, fit: str) -> dict[str, Any]:
    """Return the state of a fit in a file; empty if there is no file."""
    try:
        stored = unpack(path.read_bytes())
    except FileNotFoundError:
        return {}
    except WireError as error:
        raise ValueError(
            f"The checkpoint {path} is damaged, so the fit cannot continue. Its cost stays in its "
            "ledgers; delete the file to fit, and pay, again."
        ) from error
    if not isinstance(stored, dict) or stored.get("fit") != fit:
        raise _other_fit(path)
    return stored


def _other_fit(path: Path | None) -> ValueError:
    return ValueError(
        f"The checkpoint {path} belongs to another fit, with other parameters, data or silos. Give "
        "each fit its own path, or delete the file."
    )


def _digest_of(plan: PrivacyPlan) -> str:
    """Return a digest of the releases of each silo in a plan."""
    groups = plan.groups() if plan.private else None
    releases = None if groups is None else (groups.of_silo.tolist(), groups.compositions)
    protected = plan.guarantee, plan.spare_rounds
    words = *protected, plan.delta.tolist(), releases
    return hashlib.blake2b(repr(words).encode(), digest_size=16).hexdigest()
