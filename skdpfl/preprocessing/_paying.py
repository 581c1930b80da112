"""Base class of transformers with a privacy budget: parameters, silos, cost, and shared docs."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from skdpfl import _surface
from skdpfl._arguments import check_choice, check_flags
from skdpfl._compat import as_frame, fitting, with_names
from skdpfl._warnings import warn
from skdpfl.encoding import Kind, kinds_of, read_values
from skdpfl.federation import (
    BoundedSum,
    Federation,
    LocalFederation,
    Schema,
    SiloBudgets,
    SiloData,
    SumPlan,
)
from skdpfl.preprocessing._row_transformer import PassesSilos
from skdpfl.privacy import events
from skdpfl.privacy.calibration import check_budget_parameters, delta_of
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.ledger import Recorded, mark_of
from skdpfl.privacy.spending.spent import PrivacySpent, cost_of_sums
from skdpfl.table import Table, check_persons

#: types of features that are numbers
FLOATS = (np.float64, np.float32)
#: decorator of the transformers here, for the descriptions that they share
shared_docs: Callable[[_surface.T], _surface.T] = _surface.filled_docs(
    {
        "feature_bounds": """
    feature_bounds : (low, high) or mapping, default=None
        Public ranges: two numbers, two arrays of shape (n_features,), two Series (by column
        name if both have names), or a mapping from column to (low, high). Must not be computed
        from the data. ``low == high`` ignores the column.""",
        "silo_column": """
    silo_column : str, default=None
        The column of X that holds each record's silo; it is passed through unchanged.
    [unit]""",
        "running": """
    [trust]
    [neighbours]
    silo_column : str, default=None
        The column of X that holds each record's silo.
    keep_silo_column : bool, default=True
        Whether ``transform`` passes the columns of silos and persons through. Use False inside a
        ColumnTransformer, where every part with such a column would output it.
    [unit]
    [random_state]""",
        "unit": """
    unit : {"record", "person"}, default="record"
        What is protected: one record, or all records of a person in a silo, in any number. These
        then count as one: sums take the mean over a person's rows, and values that are looked for
        come from one row of each, drawn at random.
    person_column : str, default=None
        With ``unit="person"``: the column of X with the ids of persons, instead of ``persons`` in
        ``fit``. It is passed through as that of silos is.
    silos_per_person : int, default=1
        With ``unit="person"``: in how many silos a person may have rows. The price covers that
        many; it is an assumption where records stay elsewhere.""",
        "cost": """
    privacy_spent_ : PrivacySpent
        The privacy cost of the fit: ``epsilon, delta = transformer.privacy_spent_``.""",
        "fitted": """
    silo_ids_ : ndarray
        The silos.
    n_samples_seen_ : int
        The number of records, or of persons.
    n_features_in_ : int
        The number of columns, without those of silos and persons.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X is a DataFrame.""",
    }
)


@dataclass(frozen=True, eq=False)
class Learning:
    """The sums of a fit, planned from public numbers; ``first`` is the first one."""

    sums: tuple[SumPlan, ...]
    first: BoundedSum | None = None
    advice: str = ""

    @property
    def once(self) -> float:
        """The mu of all sums over what they cost if some may be repeated, which are paid twice."""
        each = [
            (np.array([mu.max() for mu in plan.mus]), plan.n_releases - len(plan.mus))
            for plan in self.sums
        ]
        once = sum(mu @ mu for mu, _ in each)
        again = sum(spare * mu.max(initial=0.0) ** 2 for mu, spare in each)
        return 1.0 if not np.isfinite(once) or not again else float(np.sqrt(once / (once + again)))


def _summable(values: np.ndarray) -> np.ndarray:
    """Return records clipped so that sums of squares of finite values are finite."""
    if values.dtype.kind != "f":
        return values
    most = np.finfo(np.float64).max ** 0.25
    return np.where(np.isinf(values), values, values.clip(-most, most))


class SiloSource(NamedTuple):
    """The silos that a transformer learns from, and the server's random streams.

    ``dtype`` is that of the records; ``records`` are all of them, if they are in this process and
    the budget is infinite.
    """

    federation: Federation
    streams: Streams
    dtype: np.dtype
    records: Any = None


@dataclass(eq=False, repr=False)
class _Common:
    """The parameters that all of them have."""

    _: KW_ONLY
    delta: Any = "auto"
    trust: str | events.SecureAggregation = "silo"
    silo_column: Any = None
    random_state: Any = None
    unit: str = "record"
    person_column: Any = None
    silos_per_person: int = 1


class PayingTransformer(PassesSilos, _Common, Recorded, TransformerMixin, BaseEstimator):
    """Base class of transformers that learn within a budget; see :class:`DPSimpleImputer`.

    ``_kinds`` are those of the columns, of transformers that read other values than numbers.
    """

    _kinds: tuple[Kind, ...]
    __metadata_request__fit = {"silos": True, "persons": True}  # noqa: RUF012
    _units: ClassVar[tuple[str, ...]] = ("record", "person")

    epsilon: float
    #: if they are no parameters
    neighbours: str = "auto"
    keep_silo_column: bool = True
    #: which columns are True and False
    _indicators: Any = None

    def fit(self, X: Any, y: Any = None, *, silos: Any = None, persons: Any = None) -> Any:
        """Learn from the records within the privacy budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos.
        y : None
            Ignored.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo id; None takes all records as one silo.
        persons : array-like of shape (n_samples,), default=None
            With ``unit="person"``: the id of each record's person, which stays secret, as does how
            many records a person has. Ids are compared over silos.

        Returns
        -------
        self : object
        """
        self._check()
        check_persons(self.unit, persons, self.person_column)
        with fitting(self):
            advice = self._fit(X, silos, persons)
        if advice:
            warn(advice)
        return self

    def _fit(self, X: Any, silos: Any, persons: Any) -> str:
        """Set the fitted attributes, and return warnings."""
        check_flags(keep_silo_column=self.keep_silo_column)
        streams, X = streams_for(self.random_state), as_frame(X)
        table = Table.read(
            X,
            None,
            silos,
            persons=persons,
            validate=self._validate,
            silo_column=self.silo_column,
            person_column=self.person_column,
        )
        values, read = np.asarray(table.X), table.silos
        if self.epsilon == np.inf:  # a search tries steps so, and no value may make them fail
            values = _summable(values)
        of_row, sizes = table.units(self.silos_per_person)
        y = self._targets(len(values))
        data = SiloData.from_codes(values, y, read.codes, len(sizes), of_row=of_row)
        exact = values if self.epsilon == np.inf and of_row is None else None
        source = SiloSource(LocalFederation(data, streams), streams, values.dtype, exact)
        assignment = read.assignment() if self.unit == "record" else None
        doubts = self._pay_and_fit(source, sizes, read.ids.tolist(), assignment, mark_of(values))
        self._passed = self._owners_in(X) if self.keep_silo_column else ()
        self.silo_ids_ = read.ids.to_numpy()
        return doubts

    def _targets(self, n: int) -> np.ndarray:
        """Return the targets of records, for sums that read them."""
        return np.broadcast_to(np.int8(0), n)

    def fit_federation(self, federation: Federation, facts: Schema) -> Any:
        """Learn from remote silos, which add the noise themselves.

        The result equals that of :meth:`fit`, bit for bit if the silos have the same random
        streams.
        Each silo then applies ``transform`` to its own records.

        Parameters
        ----------
        federation : Federation
            The silos.
        facts : Schema
            Public facts of their data; with ``unit="person"`` sizes are numbers of persons.

        Returns
        -------
        self : object
        """
        self._check()
        with fitting(self):
            sizes = np.array(list(facts.silo_sizes.values()), dtype=np.int64)
            self.n_features_in_ = int(facts.n_features)
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            if facts.feature_names is not None:
                self.feature_names_in_ = np.asarray(facts.feature_names, dtype=object)
            self._indicators, federation.encoding = facts.indicators, None
            own = federation.own_streams()
            streams = streams_for(self.random_state) if own is None else own
            names = list(facts.silo_sizes)
            kind: Kind = "category" if facts.dtype == "object" else "number"
            self._kinds = (kind,) * self.n_features_in_
            source = SiloSource(federation, streams, np.dtype(facts.dtype))
            doubts = self._pay_and_fit(source, sizes, names, None, None)
            federation.end()
            self._passed, self.silo_ids_ = (), np.array(names, dtype=object)
        if doubts:
            warn(doubts)
        return self

    def _pay_and_fit(
        self, source: SiloSource, sizes: np.ndarray, names: list[Any], digest: str | None, mark: Any
    ) -> str:
        """Plan, agree, charge and learn; return warnings."""
        plan, budgets, delta = self._plan_sums(sizes)
        seed = source.streams.seed
        if plan.sums:
            source.federation.agree_on_sums(plan.sums, plan.first, delta, seed)
        spent = cost_of_sums(plan.sums, delta, names, digest, seed, budgets)
        self._charge(spent, mark=mark)
        doubts = self._learn(source)
        self.privacy_spent_ = spent
        if self.unit != "silo":
            self.n_samples_seen_ = int(sizes.sum())
        return " ".join(text for text in (plan.advice, doubts) if text)

    def _plan_sums(self, sizes: np.ndarray) -> tuple[Learning, SiloBudgets, float]:
        """Return the releases, budgets and delta of a fit to silos of these sizes."""
        whole, guarantee = self.unit == "silo", self._guarantee
        delta = delta_of(self.delta, len(sizes) if whole else int(sizes.sum()))
        mu = gaussian_mu(float(self.epsilon), delta) * guarantee.share_in_silo(len(sizes))
        budgets = SiloBudgets.of(guarantee, sizes, mu, events.spare_rounds_of(self.trust))
        plan, part = self._plan(budgets, delta), 1.0
        while plan.once < part:  # another plan may have other sums
            part = plan.once
            plan = self._plan(replace(budgets, mu=budgets.mu * part), delta)
        return plan, budgets, delta

    def cost_for(self, silo_sizes: Mapping[Any, int]) -> PrivacySpent:
        """Return the cost of a fit to silos of these sizes, with columns as in the last fit.

        Parameters
        ----------
        silo_sizes : mapping
            Each silo's number of records.

        Returns
        -------
        PrivacySpent
        """
        sizes = np.array(list(silo_sizes.values()), dtype=np.int64)
        plan, budgets, delta = self._plan_sums(sizes)
        return cost_of_sums(plan.sums, delta, list(silo_sizes), None, None, budgets)

    @property
    def _guarantee(self) -> events.Guarantee:
        unit: Any = self.unit
        return events.read_guarantee(unit, self.trust, self.neighbours, self.silos_per_person)

    def _check(self) -> None:
        """Raise for invalid parameters."""
        check_choice("unit", self.unit, self._units)
        check_budget_parameters(self.epsilon, self.delta)
        check_choice("trust", events.trust_name(self.trust), ("silo", "secagg", "server"))
        check_choice("neighbours", self.neighbours, ("auto", "replace", "add_remove"))

    def _read(self, features: Any, *, reset: bool, **how: Any) -> np.ndarray:
        """Return the validated columns; without a required type, values by their columns' kinds."""
        how = {"dtype": None, "ensure_all_finite": False} | how
        listed = not hasattr(features, "columns") and not hasattr(features, "__array__")
        if how["dtype"] is None and listed:  # the dtype of a list's array follows from all values
            features = np.asarray(features, object)
        values = validate_data(self, with_names(features), reset=reset, **how)
        if how["dtype"] is not None:
            return values
        if reset:
            self._kinds = kinds_of(features if hasattr(features, "columns") else values)
        return read_values(values, self._kinds)

    def _validate(self, features: Any, y: None) -> tuple[np.ndarray, None]:
        return self._read(features, reset=True), y

    def _plan(self, budgets: SiloBudgets, delta: float) -> Learning:
        """Plan the releases; no values are read."""
        raise NotImplementedError

    def _learn(self, source: SiloSource) -> str:
        """Run the releases and set the fitted attributes; return warnings about the results."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags
