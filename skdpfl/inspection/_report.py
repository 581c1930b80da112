"""A privacy report of a fit for decision makers: what was done, what it protects, what it cost.

The report is one HTML page that needs no network and runs no code. Its content follows from the
fitted object: parameters, public numbers and the privacy cost. No record is read.

**The attacker.** For a guarantee with profile delta(epsilon), a test between two neighbouring data
sets with false positive rate a has a true positive rate of at most::

    min over e of   min( exp(e) a + delta(e),  1 - exp(-e) (1 - delta(e) - a) )

over all epsilons e, which is the trade-off curve of the fit (Kairouz, Oh, Viswanath 2015; Dong,
Roth, Su 2022). It bounds membership inference by whoever knows all other records. Each epsilon
gives a bound, so a grid does, too.
"""

from __future__ import annotations

import datetime
import inspect
import json
import math
import os
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from skdpfl import __version__
from skdpfl._arguments import at_most, check_count, epsilon_text
from skdpfl._warnings import held_back, warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection._cost import held, joined, members, privacy_spent
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.spending.ledger import PrivacyLedger, Recorded
from skdpfl.privacy.spending.spent import PrivacySpent

#: declarations that are text
_TEXTS = ("purpose", "period", "contact", "retention")
#: more silos than this are summed up
_MANY_SILOS = 30

_SEEN_BY = {
    "silo": "everybody outside the record's own silo, the server included",
    "secagg": "the server together with up to {colluding} of the other silos",
    "shuffler": "the server behind a trusted shuffler",
    "server": "everybody who sees what the server releases; the server itself is trusted",
}
#: sentences for a single estimator, which may be in a pipeline that leaks, and for a pipeline
_ALONE = "Steps before this fit, if there were any, are not included."
_WHOLE = "No other step of it read the records."
#: the page, with places for what differs between fits
_PAGE = Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))


def report(
    fitted: Any,
    *,
    public: Collection[str] = (),
    ledger: PrivacyLedger | None = None,
    purpose: str | None = None,
    period: str | None = None,
    contact: str | None = None,
    retention: str | None = None,
    persons: int | None = None,
    utility: Any = None,
    audit: Any = None,
) -> PrivacyReport:
    """Return a privacy report of a fit, for decision makers.

    Parameters
    ----------
    fitted : estimator
        A fitted estimator, transformer, pipeline, search or ensemble.
    public : collection of str, default=()
        Names of steps that cost nothing, as in :func:`skdpfl.privacy_spent`.
    ledger : PrivacyLedger, default=None
        The ledger that recorded all fits on these records, including descriptions and discarded
        fits. The report then states their total cost, in which copies of rows are other records.
    purpose, period, contact, retention : str, default=None
        What the model is for, when the records were collected, who answers questions, and how long
        model and records are kept: in your words, for whoever signs the report.
    persons : int, default=None
        The most records of one person, if it is known. The report then states the cost for a
        person.
    utility : float, PrivateScore or mapping, default=None
        How good the model is, and for which subgroups: scores by name. Those that have a
        ``privacy_spent`` are listed with their cost, which adds to the fit's.
    audit : object, default=None
        The result of :func:`skdpfl.privacy.audit_epsilon`.

    Returns
    -------
    PrivacyReport
        The report: ``to_html()``, ``save(path)``, and a display in notebooks; ``methods`` is a
        paragraph for the methods section of a paper, ``to_registry()`` plain data for a register.

    See Also
    --------
    skdpfl.privacy_spent : The cost alone.

    Notes
    -----
    The cost is that of :func:`skdpfl.privacy_spent`, which documents its assumptions. The report
    reads no record. If something was learnt without privacy, it says so at the top.

    Examples
    --------
    >>> import skdpfl
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 200, n_classes=2, n_features=5, random_state=0)
    >>> clf = skdpfl.ISRLDPClassifier(epsilon=2.0, feature_bounds=(-8, 8))
    >>> found = skdpfl.report(clf.fit(data.data, data.target, silos=data.silos))
    >>> "everybody outside the record&#x27;s own silo" in found.to_html()
    True
    >>> found.methods[-59:]
    'Steps before this fit, if there were any, are not included.'
    """
    if persons is not None:
        check_count("persons", persons)
    with held_back() as held:
        spent = privacy_spent(fitted, public=public)
    leaks = [message for message, category in held if category is PrivacyLeakWarning]
    for message in leaks:
        warn(message, PrivacyLeakWarning)
    parts = list(_parts_of(fitted))
    return PrivacyReport(
        spent,
        type(fitted).__name__,
        tuple(_facts(part) for _, part in parts if isinstance(part, Recorded)),
        tuple(leaks),
        tuple(public),
        None if ledger is None else LedgerFacts.of(ledger),
        constants={k: v for path, part in parts for k, v in _constants(part, path)},
        declared={
            "purpose": purpose,
            "period": period,
            "contact": contact,
            "retention": retention,
            "persons": persons,
            "utility": utility,
            "audit": audit,
        },
    )


def _parts_of(fitted: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and part of all innermost parts, of a search those of its best estimator."""
    inner = getattr(fitted, "best_estimator_", held(fitted))
    inner = fitted.estimator if isinstance(fitted, FrozenEstimator) else inner
    if inner is not None:
        yield from _parts_of(inner, path)
    elif (inside := members(fitted)) is not None:
        for name, part in inside:
            yield from _parts_of(part, joined(path, name))
    elif not isinstance(fitted, str | None):
        yield path, fitted


#: parameters that are constants of the records' columns
_CONSTANTS = ("categories", "feature_bounds", "fill_value", "func", "function", "knots", "kw_args",
              "target_bounds")  # fmt: skip


def _constants(part: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the declared constants of a part: its place, name and column, and the value."""
    parameters = part.get_params(deep=False)
    names = getattr(part, "feature_names_in_", None)
    names = [f"x{i}" for i in range(getattr(part, "n_features_in_", 0))] if names is None else names
    for name in _CONSTANTS:
        value = parameters.get(name)
        if value is None or isinstance(value, str):
            continue
        for column, each in _by_column(value, list(names)):
            yield f"{path or type(part).__name__}: {name}{column}", _short(each)


def _by_column(value: Any, names: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the column of a constant, and its value there."""
    if isinstance(value, Mapping):
        yield from ((f" of {column}", each) for column, each in value.items())
    elif callable(value):
        yield "", getattr(value, "__name__", value)
    elif not (isinstance(value, Sized) and np.iterable(value)):
        yield "", value
    elif len(value) == len(names) and not (len(value) == 2 and 0 in map(np.ndim, value)):
        yield from zip((f" of {name}" for name in names), value, strict=True)
    elif len(value) == 2 and (len(names),) in map(np.shape, value):
        ends = ([end] * len(names) if np.ndim(end) == 0 else end for end in value)
        yield from zip((f" of {name}" for name in names), zip(*ends, strict=True), strict=True)
    else:
        yield "", value


@dataclass(frozen=True)
class PartFacts:
    """The report's facts of a private part: parameters, results of "auto", public numbers."""

    name: str
    spent: PrivacySpent
    changed: dict[str, str]
    chosen: dict[str, str]
    public: dict[str, str]


def _facts(part: Any) -> PartFacts:
    """Return the facts of a part."""
    defaults = {p.name: p.default for p in inspect.signature(type(part)).parameters.values()}
    values = part.get_params(deep=False)
    values = {n: v.item() if isinstance(v, np.generic) else v for n, v in values.items()}
    changed = {n: repr(v) for n, v in values.items() if repr(v) != repr(defaults.get(n))}
    chosen, plan = dict[str, str](), getattr(part, "plan_", None)
    for name in ("n_rounds_", "learning_rate_", "clip_norm_", "sampling_rate_", "local_steps_"):
        if hasattr(part, name):
            chosen[name] = _short(getattr(part, name))
    if plan is not None and plan.noise_multiplier is not None:
        noise = sorted({_short(float(each)) for each in np.ravel(plan.noise_multiplier)})
        chosen["noise, in clipping norms"] = _some(noise)
    if parts := part.privacy_spent_.shares:
        chosen["parts of the budget"] = _some(f"{name} {share:.1%}" for name, share in parts)
    public = dict[str, str]()
    silos = getattr(part, "silo_ids_", None)
    if silos is not None:
        public[f"{len(silos)} silo" + "s" * (len(silos) != 1)] = _some(silos)
    units = "persons" if part.privacy_spent_.unit == "person" else "records"
    sizes = getattr(plan, "silo_sizes", None)
    n = getattr(part, "n_samples_seen_", None) if sizes is None else int(np.sum(sizes))
    if n is not None:
        public[f"number of {units}"] = f"{n:,}"
    if sizes is not None:
        public[f"{units} of each silo"] = _some(sizes)
    public["columns"] = _some(getattr(part, "feature_names_in_", [part.n_features_in_]))
    if hasattr(part, "classes_"):
        public["possible labels"] = _some(part.classes_)
    return PartFacts(type(part).__name__, part.privacy_spent_, changed, chosen, public)


def _short(value: Any) -> str:
    if isinstance(value, list | tuple | np.ndarray):
        return _some(_short(each) for each in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _some(values: Iterable[Any]) -> str:
    """Return text with the first values, and their number."""
    listed = [str(value) for value in values]
    more = f", ... ({len(listed)} in all)" if len(listed) > _MANY_SILOS else ""
    return ", ".join(listed[:_MANY_SILOS]) + more


@dataclass(frozen=True)
class LedgerFacts:
    """The report's facts of a ledger: a row per fit, the amount spent, and the budget."""

    rows: dict[str, str]
    spent: float
    delta: float
    budget: float | None

    @classmethod
    def of(cls, ledger: PrivacyLedger) -> LedgerFacts:
        """Read a ledger."""
        table = ledger.table()
        if not len(table):
            raise ValueError("No fit has been recorded in this ledger.")
        columns = table["name"], table["epsilon"], table["date"]
        rows = {
            f"{k}. {name}": f"epsilon {epsilon_text(epsilon)}; {date}"
            for k, (name, epsilon, date) in enumerate(zip(*columns, strict=True), start=1)
        }
        return cls(rows, float(table["spent"].iloc[-1]), ledger.delta, ledger.epsilon)

    @property
    def words(self) -> str:
        """The sentence about all fits."""
        budget = f"epsilon = {epsilon_text(self.spent)} and delta = {self.delta:g}"
        held = "" if self.budget is None else f", held below epsilon = {self.budget:g} by a filter"
        names = ", ".join(name.partition(". ")[2] for name in self.rows)
        return (
            f"All {len(self.rows)} fits on these records ({names}) cost {budget}{held}; copies of "
            "a record, as bags of pipelines make, count there as other records."
        )


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """A privacy report of a fit, made by :func:`skdpfl.report`.

    Attributes
    ----------
    spent : PrivacySpent
        The whole cost.
    name : str
        The class of the fitted object.
    parts : tuple
        The facts of each private part.
    leaks : tuple of str
        What was learnt without privacy.
    public : tuple of str
        Steps that were declared to cost nothing.
    ledger : object or None
        The facts of all fits on these records.
    constants : dict
        Each declared constant by its step, name and column.
    declared : dict
        Purpose, period, contact, retention, persons, utility and audit; None: not stated.
    made : str
        The date of the report.
    """

    spent: PrivacySpent
    name: str
    parts: tuple[PartFacts, ...]
    leaks: tuple[str, ...]
    public: tuple[str, ...]
    ledger: LedgerFacts | None = None
    constants: dict[str, str] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)
    made: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    )

    def __repr__(self) -> str:
        return f"PrivacyReport({self.name}, {self.spent!r})"

    @property
    def methods(self) -> str:
        """The sentences that a paper's methods section needs."""
        spent, names = self.spent, [part.name for part in self.parts]
        same = len(names) == 1 and names[0] == self.name
        with_parts = "" if same or not names else f" ({', '.join(dict.fromkeys(names))})"
        first = f"{self.name} of skdpfl {__version__}" if same else f"{self.name}{with_parts}, with"
        first += "" if same else f" skdpfl {__version__},"
        text = f"{first} was fitted to {self._data()}. "
        if math.isinf(spent.epsilon):
            return " ".join([text + "This is not differentially private.", *self.leaks])
        budget = f"epsilon = {epsilon_text(spent.epsilon)} and delta = {spent.delta:g}"
        per_silo = spent.per_silo
        if per_silo is not None and per_silo.nunique() > 1:
            each = {silo: epsilon_text(value) for silo, value in per_silo.items()}
            budget += f" (epsilon by silo: {_some(f'{s}: {e}' for s, e in each.items())})"
        text += (
            f"It is differentially private against {self._seen_by()}, for {self._change()}, with "
            f"{budget}; the releases were composed {COMPOSED[spent.accountant]}. "
        )
        text += " ".join(self.leaks) if self.leaks else (_ALONE if same else _WHOLE)
        text += "" if self.ledger is None else f" {self.ledger.words}"
        if spent.simulation:
            text += " The noise was simulated from a fixed seed; whoever knows it can remove it."
        return text

    def _data(self) -> str:
        """Return text with the numbers of records and silos."""
        facts = next((part.public for part in reversed(self.parts) if part.public), {})
        silos = next((name for name in facts if "silo" in name), "the silos")
        if persons := facts.get("number of persons"):
            return f"the records of {persons} persons in {silos}"
        n = facts.get("number of records")
        return f"{n} records of {silos}" if n else f"the records of {silos}"

    def _change(self) -> str:
        """Return text on what is protected."""
        several = f"{self.spent.group_size} {self.spent.unit}s" if self.spent.group_size > 1 else ""
        what = several or f"one {self.spent.unit}"
        if self.spent.neighbours == "replace":
            return f"replacing {what}"
        return f"setting the contribution of {what} to zero"

    def _seen_by(self) -> str:
        text = _SEEN_BY[self.spent.trust].format(colluding=self.spent.colluding)
        return text.replace("record's own silo", "silo") if self.spent.unit == "silo" else text

    def to_html(self) -> str:
        """Return the page.

        Returns
        -------
        str
            A complete HTML document, without external links.
        """
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>Privacy report: {escape(self.name)}</title></head>"
            f'<body style="margin:0">{self._repr_html_()}</body></html>\n'
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path
            The file, such as ``report.html``; an existing file is replaced.

        Returns
        -------
        Path
            The file.
        """
        file = Path(path)
        file.write_text(self.to_html(), encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        ledger, spent = self.ledger, self.spent
        all_fits = "" if ledger is None else f"{table_of(ledger.rows)}<p>{escape(ledger.words)}</p>"
        assumed = ASSUMED[spent.trust].format(colluding=spent.colluding)
        leaks = (f'<p class="bad">Not paid for: {escape(text)}</p>' for text in self.leaks)
        done = (section(f"What was done: {part.name}", _done(part)) for part in self.parts)
        return _PAGE.substitute(
            name=escape(self.name),
            leaks="".join(leaks),
            methods=escape(self.methods),
            declared="".join(self._of_purpose()),
            cost=self._cost(),
            curve=at_deltas(spent),
            all_fits=all_fits and section("All fits on these records", all_fits),
            done="".join(done),
            rests_on=escape(assumed),
            assumed=self._assumed(),
            correctness=table_of(correctness(spent, self.declared.get("audit"))),
            versions=table_of(self._versions()),
            json=escape(json.dumps(spent.to_dict(), indent=1)),
        )

    def _of_purpose(self) -> Iterator[str]:
        """Yield the sections of what was declared."""
        if words := self._words():
            rows = {name.capitalize(): text for name, text in words.items()}
            yield section("What it is for", table_of(rows))
        if (utility := self.declared.get("utility")) is not None:
            yield section("How good it is", table_of(of_use(utility)))

    def _words(self) -> dict[str, str]:
        """Return the declared texts."""
        texts = {name: self.declared.get(name) for name in _TEXTS}
        return {name: str(text) for name, text in texts.items() if text is not None}

    def to_registry(self) -> dict[str, Any]:
        """Return the report as plain data, for a register of private releases.

        Returns
        -------
        dict
            Numbers, text, lists and mappings, which JSON can hold: the cost and its currencies,
            the bounds on an attacker, who is protected against whom, what was declared, and all
            fits of the ledger.
        """
        spent, ledger = self.spent, self.ledger
        private = math.isfinite(spent.epsilon)
        return {
            "schema": "skdpfl.PrivacyReport",
            "version": 1,
            "library": f"skdpfl {__version__}",
            "made": self.made,
            "name": self.name,
            "methods": self.methods,
            "privacy_spent": spent.to_dict(),
            "true_positive_rates": {str(k): v for k, v in attack_rates(spent).items()}
            if private
            else {},
            "assumptions": ASSUMED[spent.trust].format(colluding=spent.colluding),
            "declared": self._words() | {"records_per_person": self.declared.get("persons")},
            "public": dict(pair for part in self.parts for pair in part.public.items()),
            "constants": dict(self.constants),
            "not_paid_for": list(self.leaks),
            "all_fits": None if ledger is None else {
                "fits": dict(ledger.rows), "epsilon": ledger.spent, "delta": ledger.delta,
            },
        }  # fmt: skip

    def _cost(self) -> str:
        """Return the tables of the guarantee and of the silos, and an explanation."""
        spent = self.spent
        rows = {
            "Protected": f"{self._change()} changes what is seen by little, as epsilon says",
            "Against": self._seen_by(),
            "Epsilon": epsilon_text(spent.epsilon),
            "Delta": f"{spent.delta:g}",
            "Noisy releases": str(spent.n_releases),
        }
        if math.isinf(spent.epsilon):
            return table_of(rows) + "<p>There is no privacy guarantee.</p>"
        if spent.simulation:
            rows["Noise"] = "simulated from a fixed seed: no protection against anyone who knows it"
        right = at_most(50 + 50 * spent.delta_at(0.0), decimals=0)
        rows["In plain words"] = (
            f"Whoever knows all other records and reads all of this tells two versions of one "
            f"{spent.unit} apart in at most {right} of 100 cases; a coin is right in 50."
        )
        rows |= compared(spent) | of_persons(spent, self.declared.get("persons"))
        outsider = spent.outsider
        if outsider is not None:
            rows["Against someone who sees the models only"] = (
                f"epsilon {epsilon_text(outsider.epsilon)}"
            )
        per_silo, silos = spent.per_silo, ""
        if per_silo is not None and per_silo.nunique() > 1:
            shown = per_silo if len(per_silo) <= _MANY_SILOS else per_silo.describe()
            silos = "<h3>By silo</h3>" + table_of(
                {str(name): epsilon_text(value) for name, value in shown.items()}
            )
        return table_of(rows) + silos

    def _assumed(self) -> str:
        """Return text on what was assumed to be public, and is not protected."""
        rows = dict[str, str]()
        for part in self.parts:
            rows |= part.public
        rows["parameters"] = "all that are named above, declared ranges and categories among them"
        if self.public:
            rows["steps declared to cost nothing"] = ", ".join(self.public)
        declared = f"<p>{_VOUCH}</p>{table_of(self.constants)}" if self.constants else ""
        return table_of(rows) + declared

    def _versions(self) -> dict[str, str]:
        names = ("numpy", "scipy", "scikit-learn", "pandas")
        versions = {"skdpfl": __version__, "Python": platform.python_version()}
        return versions | {name: version(name) for name in names} | {"Page made": self.made}


_VOUCH = (
    "Whoever declared these constants vouches that none was computed from the records; if one was, "
    "the cost above does not hold:"
)


def _done(part: PartFacts) -> str:
    """Return the parameters of a part, the choices of "auto", and its own cost."""
    own = f"epsilon {epsilon_text(part.spent.epsilon)} at delta {part.spent.delta:g}"
    rows = {"Its own cost": own}
    rows |= {f"{name} (given)": value for name, value in part.changed.items()}
    rows |= {f"{name} (chosen)": value for name, value in part.chosen.items()}
    return table_of(rows)


# ---- the blocks of the page ----------------------------------------------------------------------

#: false positive rates at which an attacker's true positive rate is bounded, and the grid
RATES, _EPSILONS = (0.001, 0.01), np.concatenate([[0.0], np.geomspace(0.01, 40.0, 48)])
#: the deltas of the table; below the least, prices are not certified
_DELTAS = 1e-10, 1e-8, 1e-6, 1e-4, 1e-2

#: the assumption of each trust
ASSUMED = {
    "silo": "Each silo runs this software on its own computer, with random numbers that nobody "
    "else knows. Nothing is assumed of the server, the network or other silos.",
    "secagg": "The silos' keys are exchanged outside the server, and hard to guess. At most "
    "{colluding} of the other silos tell the server what they know, or add too little noise.",
    "shuffler": "The shuffler mixes all messages of a round and tells nobody who sent which; the "
    "other silos send theirs.",
    "server": "The server sees exact sums: it adds the noise, tells nobody the sums, and deletes "
    "them.",
}
#: how an accountant composes releases
COMPOSED = {
    "gdp": "as Gaussian mechanisms (Gaussian differential privacy), rounded upwards",
    "pld": "by their privacy loss distributions, rounded upwards",
    "none": "not at all, since exact numbers were released",
}
_CORRECT = {
    "Floating point": "noise is an exact integer number of steps of a grid, whose law is known; "
    "sums are rounded to the same grid, and all rounding is in the price",
    "Not verified": "the hardware, the compiler, the operating system's random numbers",
}


def attack_rates(spent: PrivacySpent) -> dict[float, float]:
    """Return the largest true positive rate of an attack, by its false positive rate."""
    deltas = np.array([spent.delta_at(float(epsilon)) for epsilon in _EPSILONS])
    rates = {}
    for rate in RATES:
        by_ratio = np.exp(_EPSILONS) * rate + deltas
        by_miss = 1 - np.exp(-_EPSILONS) * np.maximum(1 - deltas - rate, 0.0)
        rates[rate] = float(min(1.0, by_ratio.min(), by_miss.min()))
    return rates


def compared(spent: PrivacySpent) -> dict[str, str]:
    """Return rows with the cost in other currencies, and the attacker's success."""
    mu = gaussian_mu(spent.epsilon, spent.delta)
    rows = {
        "For comparison": f"a Gaussian mechanism with this epsilon and delta has mu = {mu:.3g} "
        f"(Gaussian differential privacy) and rho = {mu**2 / 2:.3g} (zero-concentrated)"
    }
    for rate, most in attack_rates(spent).items():
        rows[f"An attack with {100 * rate:g} false alarms in 100"] = (
            f"finds at most {at_most(100 * most, decimals=1)} of 100 {spent.unit}s"
        )
    return rows


def of_persons(spent: PrivacySpent, persons: int | None) -> dict[str, str]:
    """Return a row on people with several records, or in several silos."""
    if spent.unit == "person":
        most = spent.silos_per_person
        where = "one silo" if most == 1 else f"at most {most} silos"
        return {"A person in several silos": f"assumed: each has records in {where}"}
    if spent.unit != "record" or spent.group_size > 1:
        return {}
    if persons is not None:
        cost = epsilon_text(spent.group(persons).epsilon)
        return {f"A person, with at most {persons} records": f"epsilon {cost}, as declared"}
    two, five = (epsilon_text(spent.group(k).epsilon) for k in (2, 5))
    return {"A person with several records": f"epsilon {two} with 2 records, {five} with 5"}


def correctness(spent: PrivacySpent, audit: Any) -> dict[str, str]:
    """Return rows on random numbers, arithmetic and an audit."""
    seeded = "a fixed seed, for a simulation: whoever knows it can remove the noise"
    rows = {"Random numbers": seeded if spent.simulation else
            "a cryptographic stream, keyed by the operating system"}  # fmt: skip
    composed = f"releases were composed {COMPOSED[spent.accountant]}"
    rows["Composition"] = f"the plan that was priced is the plan that ran; {composed}"
    rows |= _CORRECT
    if audit is None:
        rows["Audit by attack"] = "none is attached (skdpfl.privacy.audit_epsilon makes one)"
    else:
        rows["Audit by attack"] = (
            f"attacks show an epsilon of at least {audit.lower_bound:.2f}, with a confidence of "
            f"{audit.confidence:g}; {epsilon_text(audit.reported)} is stated"
        )
    return rows


def of_use(utility: Any) -> dict[str, str]:
    """Return a row for each score: its value, its noise and its own cost."""
    scores = utility if isinstance(utility, Mapping) else {"score": utility}
    rows = {}
    for name, score in scores.items():
        text = f"{float(score):.3g}"
        if (noise := getattr(score, "noise", None)) is not None:
            text += f", with noise of deviation {float(noise):.2g}"
        if (spent := getattr(score, "privacy_spent", None)) is not None:
            text += (
                f"; cost epsilon {epsilon_text(spent.epsilon)} at delta {spent.delta:g}, in "
                "addition to the fit"
            )
        elif not hasattr(score, "noise"):
            text += " (as declared: no cost of it is on this page)"
        rows[str(name)] = text
    return rows


def at_deltas(spent: PrivacySpent) -> str:
    """Return a table of the epsilon at each of some deltas."""
    if math.isinf(spent.epsilon):
        return "<p>There is none.</p>"
    rows = {
        f"delta {delta:g}": f"epsilon {epsilon_text(spent.epsilon_at(delta))}" for delta in _DELTAS
    }
    return f"<p>All pairs hold at once.</p>{table_of(rows)}"


def section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}"


def table_of(rows: dict[str, str]) -> str:
    """Return a table with rows of a name and a text, both escaped."""
    cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
    return f"<table>{''.join(cells)}</table>"
