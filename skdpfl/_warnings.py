"""Warnings that point at the user's line.

Warnings about data look at names alone: of unseen silos, and of columns of people. Silo ids and
column names are public; nothing else is read here.
"""

import copyreg
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_stack, walk_tb
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.exceptions import UnseenSiloWarning

#: this package, and what may stand between (pipelines, searches, callbacks); found without
#: importing it, for remote silos do not need it
_BETWEEN = tuple(
    str(Path(spec.origin).parent)
    for spec in map(find_spec, ("skdpfl", "sklearn", "joblib"))
    if spec is not None and spec.origin is not None
)
PACKAGES = _BETWEEN[:2]


_HELD: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("held", default=None)
_FOREIGN = (
    "A step of the pipeline raised an error on these records. What it says may follow from one of "
    "them, so it is not passed on: run the steps before the last on made-up records with the same "
    "columns to see it."
)


@contextmanager
def foreign_steps() -> Iterator[None]:
    """Ignore the warnings of steps from outside, and replace their errors by a fixed one.

    Both may follow from a single record. This package's own are passed on.
    """
    foreign = False
    with held_back() as held, warnings_off():
        try:
            yield
        except Exception as error:
            if _raised_here(error):
                raise
            foreign = True
    for message, category in held:
        warn(message, category)
    if foreign:
        raise ValueError(_FOREIGN) from None


class _Holding(type):
    """Metaclass of warning categories whose filters match only while a block runs.

    ``warnings.catch_warnings`` restores the filters of its beginning, whatever another thread has
    set since. A filter that matches nothing may stay.
    """

    kind: type[Warning]
    threads: Counter[int]
    everywhere: bool

    def __subclasscheck__(cls, other: type) -> bool:
        here = cls.threads.total() if cls.everywhere else cls.threads[threading.get_ident()]
        return bool(here) and issubclass(other, cls.kind)

    @contextmanager
    def holding(cls) -> Iterator[None]:
        """Let the filters of this category hold while a block runs."""
        here = threading.get_ident()
        with _LOCK:
            cls.threads[here] += 1
            warnings.simplefilter("ignore", _Any)
            warnings.simplefilter("error", _Complex)  # precedes the other filter
            if _Any.threads:
                _show_by(_unseen)
        try:
            yield
        finally:
            with _LOCK:
                cls.threads[here] -= 1
                cls.threads += Counter()  # keeps what is above 0
                if not _Any.threads:
                    _show_by(_SHOWN)
                if not _Any.threads and not _Complex.threads:
                    ours = [each for each in warnings.filters if each[2] in (_Any, _Complex)]
                    for each in ours:
                        warnings.filters.remove(each)  # type: ignore[attr-defined]


class _Any(Warning, metaclass=_Holding):
    """All warnings, in all threads: a block may start some."""

    kind, threads, everywhere = Warning, Counter[int](), True


class _Complex(Warning, metaclass=_Holding):
    """An imaginary part that is discarded, in the threads that are in a block."""

    kind, threads, everywhere = np.exceptions.ComplexWarning, Counter[int](), False


def _itself(kind: type[Warning]) -> type[Warning]:
    return kind


def _for_workers(category: _Holding) -> Any:
    """Return what a filter names in a worker process, which does not know that a block runs."""
    return (_itself, (category.kind,)) if category.threads.total() else category.__qualname__


copyreg.pickle(_Holding, _for_workers)  # type: ignore[arg-type]
_LOCK = threading.Lock()
_SHOWN = warnings._showwarnmsg  # type: ignore[attr-defined]


def _unseen(message: object) -> None:
    """Show nothing."""


def _show_by(show: Callable[[Any], None]) -> None:
    """Set what shows the warnings that pass all filters; ``catch_warnings`` does not restore it."""
    warnings._showwarnmsg = show  # type: ignore[attr-defined]


def warnings_off() -> AbstractContextManager[None]:
    """Suppress all warnings, which may follow from a record, or from what no budget covers.

    Other threads' warnings, this package's too, are lost meanwhile: a block may start threads, and
    no context tells those from others.

    Another thread may leave or enter ``catch_warnings`` meanwhile, whose filters then precede: what
    they let pass is not shown. (What they raise, is raised.)
    """
    return _Any.holding()


def refusing_complex() -> AbstractContextManager[None]:
    """Raise NumPy's warning of an imaginary part that is discarded, which one value decides."""
    return _Complex.holding()


@contextmanager
def held_back() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect this package's warnings in a list instead."""
    held: list[tuple[str, type[Warning]]] = []
    token = _HELD.set(held)
    try:
        yield held
    finally:
        _HELD.reset(token)


def _raised_here(error: Exception) -> bool:
    """Whether this package raised an error, rather than what it called."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_code.co_filename.startswith(PACKAGES[:1])


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as if from the first caller outside this package, scikit-learn and joblib."""
    if (held := _HELD.get()) is not None:
        held.append((message, category))
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


_IDS = {"id", "ids", "code", "no", "nr", "num", "number", "key"}
#: a column of one of these names, alone or with a word for an id, holds people's ids
_PEOPLE = {"patient", "person", "subject", "participant", "mrn"}
#: these only with a word for an id: alone they may be a yes or no
_ROLES = {"client", "customer", "employee", "member", "pupil", "respondent", "student", "user"}
_EXPECTED = ContextVar("silos that were not in the fit are scored on purpose", default=False)


class LeftOut(np.ndarray):
    """Rows of a test set whose silos were left out of the training set on purpose."""


@contextmanager
def new_silos_expected() -> Iterator[None]:
    """Suppress UnseenSiloWarning while silos are scored one by one."""
    token = _EXPECTED.set(True)
    try:
        yield
    finally:
        _EXPECTED.reset(token)


def warn_of_unseen_silos(model: Any, X: Any) -> None:
    """Warn, once per fitted model, of silos in X's silo column that were not in the fit."""
    name = model.silo_column
    if name is None or model._told_of_silos or name not in list(getattr(X, "columns", ())):
        return
    unseen, known = _ids(X[name]), model.silo_ids_
    if known.dtype == object:  # integers beyond 64 bits may be among them
        unseen = unseen.astype(object)
    unseen = unseen[~unseen.isin(known)].tolist()
    if not unseen or _EXPECTED.get() or _left_out_on_purpose():
        return
    model._told_of_silos.append(True)  # in place: predicting sets no attribute
    more = f" and {len(unseen) - 5} more" if len(unseen) > 5 else ""
    warn(
        f"X has records of silo(s) that were not in the fit: {unseen[:5]!r}{more}. Predictions "
        "for them may be poor. In a cross-validation SiloStratifiedKFold(silo_column=...) has "
        "every silo in each training set; LeaveOneSiloOut and SiloKFold leave silos out on "
        "purpose and do not warn. This warning appears once per fitted model.",
        UnseenSiloWarning,
    )


def _ids(column: Any) -> pd.Index:
    """Return the distinct ids of a frame's column, missing ones left out."""
    values = column if isinstance(column, pd.Series) else pd.Series(column.to_list())
    return pd.Index(np.asarray(values.dropna().unique()), tupleize_cols=False)


def _left_out_on_purpose() -> bool:
    """Whether a fold that this package's splitters left out is being scored.

    The splitters mark the rows of such test sets; the mark stays with the rows, also in another
    process.
    """
    for frame, _ in walk_stack(sys._getframe()):
        if frame.f_code.co_filename.startswith(PACKAGES):
            here = frame.f_locals  # scikit-learn makes plain arrays of what its workers are given
            arguments = (*here.get("args", ()), *dict(here.get("kwargs", ())).values())
            if any(isinstance(value, LeftOut) for value in (*here.values(), *arguments)):
                return True
    return False


def _is_person_like(name: str) -> bool:
    every = [word for word in _words(name) if word not in {"remainder", "num"}]
    words = [word for word in every if word not in _IDS]
    if len(words) != 1:
        return False
    who = words[0]
    joined = who.removesuffix("id")  # patientid
    named = len(words) < len(every) or joined != who
    return _one_of(who, _PEOPLE) or (named and _one_of(joined, _PEOPLE | _ROLES))


def _words(name: str) -> list[str]:
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z]+", apart) if word]


def _one_of(word: str, names: Collection[str]) -> bool:
    return word in names or word.removesuffix("s") in names


def warn_of_people(X: Any) -> None:
    """Warn if a feature is named like an id of people; only the name is looked at."""
    names = [name for name in getattr(X, "columns", ()) if isinstance(name, str)]
    if matches := [name for name in names if _is_person_like(name)]:
        warn(
            f"X has a column {matches[0]!r}, which is used as a feature. If it identifies people, "
            f"leave it out: X.drop(columns={matches[0]!r}). Note that epsilon protects one row: if "
            f'people have several, give unit="person" and person_column={matches[0]!r}; the page '
            "'People with several rows' shows how."
        )
