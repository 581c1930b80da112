"""The parameters and their documentation, from which constructors and docstrings are made.

The reference pages show the groups as headings; docstrings list the parameters without them.
Constructors refuse scikit-learn's parameters that have another name here, and say which. The
docstring of a family's base class has what the family adds: a description, parameters with another
meaning there, attributes, and a proof. All estimators share:

Budget, data and objective
--------------------------
epsilon : float, mapping or None, default=1.0
    The privacy budget: a positive number, ``inf`` for no privacy at all, or a mapping from silo id
    to number that gives each silo its own. None if ``noise_multiplier`` is given.
delta : "auto", float or mapping, default="auto"
    The delta of the budget. "auto" is the largest power of ten that is at most
    1 / (10 n_records), with n_persons for ``unit="person"`` and n_silos for ``unit="silo"``.
feature_bounds : (low, high) or mapping, default=None
    Public bounds of the features: scalars, arrays, Series (by column name if both have names), or a
    mapping from column to what is public of it: a tuple is a range, a list or set levels, a tuple
    of two dates a range of days, and "number", "category", "flag" or "date" its kind. A column with
    low == high is ignored. After the steps of a pipeline, columns have their output's names;
    columns of True and False need no bounds.
target_bounds : (low, high), default=None
    Public bounds of the target. Of survival times (0, horizon), which has no default: times beyond
    the horizon are censored there.
breaks : int or sequence of float, default=8
    The intervals of the horizon in which the baseline hazard is constant: a number of equal ones,
    or the inner ends of all, public times.
silo_column : str, default=None
    The column of X with the silo ids, instead of ``silos`` in ``fit``.
classes : array-like or mapping, default=None
    The class labels, which are public; by default those in ``y``. A mapping from label to its share
    of the records, if publicly known; the shares sum to 1. If noise hides the signal, log odds are
    shrunk towards those of the shares. Without shares, two labels are counted within the budget
    (see ``calibrate``). Shares counted from the records would leak.
loss : {choices}
    The loss whose weighted mean over the records is minimised: a name, or an object of
    ``skdpfl.losses`` or of your own, whose fields are parameters such as ``loss__q``. Non-smooth
    losses (hinge, absolute error, quantile) are replaced by their Moreau envelope, with a smoothing
    that is small compared to noise and sampling error. A classifier's
    "ordinal" is the cumulative logit model of ordered labels. A regressor's "poisson" and
    "negative_binomial" are for counts, "gamma" for amounts, "tweedie" for amounts of which some
    are 0. Such targets are scaled but not shifted: ``predict`` returns
    ``exp(X @ coef_ + intercept_)`` times the exposure, and ``score`` is the deviance explained.
alpha : float, default=0.0
    The penalty ``alpha / 2 * |w|^2`` is added to the mean loss; the intercept is not penalised.
    Ridge's ``alpha`` is n_records times this one, LogisticRegression's ``C`` is
    1 / (n_records * alpha). The penalty is on the coefficients of scaled features (and target), as
    after a StandardScaler; use ``scaling=None`` for the units of ``X`` and ``y``.
fit_intercept : bool, default=True
    Whether the model has an intercept. If False, features and target are scaled but not
    centred.
model : "auto", "linear", "additive" or object, default="{model}"
    "additive": a sum of curves, one per feature, whose knots are found with a tenth of the budget
    within ``feature_bounds`` (:class:`skdpfl.models.Additive`; ``shape_functions_``); the linear
    model if the budget is too small for them. "auto" is "additive" for log loss and squared error
    where there are bounds, a finite budget and a scaling, and "linear" else, and with
    ``inference="intervals"``. Or an object such as :class:`skdpfl.models.MLP`, whose parameters are
    searched as ``model__activation``. Networks have ``coefs_`` and ``intercepts_`` instead of
    ``coef_`` and ``intercept_``.
max_categories : int, default=20
    The number of columns for a category whose levels are not declared.
scaling : {"auto", "private"} or None, default="auto"
    How features (and the target) are scaled. "auto" uses the bounds; without bounds it estimates
    scales with a part of the budget, if the budget is large enough. None: no scaling.
clip_features : "auto" or bool, default="auto"
    Whether ``fit`` and ``predict`` clip features, so that a typing error or a long tail has no
    large effect. "auto": at four scales from their centers, unless ``scaling`` is None, epsilon
    infinite, or ``inference`` is "intervals", which are of features as they are. True: to
    ``feature_bounds``, if there are any, and predictions of regressors to ``target_bounds``. With
    clipping, ``X @ coef_.T + intercept_`` are the raw predictions only for features between
    ``scaling_.low`` and ``scaling_.high``.
class_weight : mapping, default=None
    Weights of the classes, at least 0: the losses of a class are multiplied by its weight before
    gradients are clipped. Weights are public numbers and cost nothing; a class without an entry has
    weight 1. They are divided by the largest, so that clipping does not undo them: a common factor
    changes nothing. "balanced" is not allowed, since it counts labels.

Privacy
-------
unit : {"record", "person", "silo"}, default="record"
    What is protected: one record, all records of a person in a silo, in any number, or all records
    of a silo.
person_column : str, default=None
    With ``unit="person"``: the column of X with the ids of persons, instead of ``persons`` in
    ``fit``.
contribution : {"mean", "sum"}, default="mean"
    With ``unit="person"``: what is clipped once in each step, the mean or the sum of the gradients
    of a person's rows in a silo.
silos_per_person : int, default=1
    With ``unit="person"``: in how many silos a person may have rows. The price covers that many; it
    can be checked only where all records are in one process.
trust : {"silo", "secagg", "server"}, default="silo"
    Whom a person in the data has to trust. "silo": only their own silo; everything that leaves it
    is private. "secagg": the masks, which hide all but the sum of the silos' messages, and that at
    most one other silo colludes with the server (two with :class:`skdpfl.privacy.SecureAggregation`
    ``(colluding=2)``); each silo adds a share of the noise. "server": the server sees exact sums
    and adds the noise.
neighbours : {"auto", "replace", "add_remove"}, default="auto"
    The neighbouring relation of the guarantee: one record (silo) is replaced, or its contribution
    is set to zero. "auto" is "add_remove" for ``unit="silo"`` with ``trust="server"``, else
    "replace" (with ``trust="secagg"`` it is visible which silos take part, and their data are
    hidden).
noise_multiplier : float, default=None
    Instead of a budget (``epsilon=None``): the standard deviation of the noise on the clipped sum,
    divided by ``clip_norm``.

Rounds and steps
----------------
solver : {"minibatch", "accelerated", "multistage", "local", "localized"}, default="minibatch"
    The optimisation method. "minibatch": a step along the silos' mean gradient, with momentum at
    the server if ``learning_rate="auto"``. "accelerated": accelerated stochastic approximation
    (AC-SA), which needs fewer rounds. "multistage": AC-SA in stages; needs ``alpha > 0``. "local":
    each silo takes ``local_steps`` steps by itself; ``trust="silo"`` only. "localized": AC-SA in
    phases, each on a new batch of half the size, near the end of the one before; a record pays for
    one phase. ``local_steps`` is an error but with "local", ``sampling`` with "localized";
    ``radius`` and ``average`` work with all.
algorithm : Algorithm, default=None
    An object of :class:`skdpfl.algorithms.Algorithm`; None is DP-FedAvg with one local step.
mechanism : {"gaussian", "privunit"}, default="gaussian"
    How silos make their messages private under ``trust="silo"``. "privunit" is pure local privacy:
    the message's direction by PrivUnit, its norm by ScalarDP.
n_rounds : "auto", "budget" or int, default="auto"
    The number of rounds. "budget": as many as ``epsilon`` allows at ``noise_multiplier``, of which
    both are given then (the papers' way; ``noise_schedule`` included).
local_steps : "auto", int or sequence of int, default="auto"
    Gradient steps of a silo in a round; a sequence has one number per round. "auto" is 1 without
    privacy, which avoids client drift.
local_epochs : float or sequence, default=None
    Instead of ``local_steps``: passes over a silo's records in a round (divided by the sampling
    rate this is the number of steps).
learning_rate : "auto" or float, default="auto"
    The learning rate for the average clipped gradient, sum / (sampling_rate * n_i); with
    ``unit="silo"`` that of a silo's steps along its mean gradient.
momentum : "auto" or float, default="auto"
    Heavy-ball momentum of the local steps, reset in each round; with ``local_steps=1``, momentum of
    the server's steps. "auto" is 0 with several local steps, a given learning rate or
    ``unit="silo"``, and else what stable steps need.
global_learning_rate : "auto" or float, default="auto"
    The server's learning rate for the silos' mean update. "auto" is 1, except with several local
    steps and ``learning_rate="auto"``. Then silos take small steps and the server a large one, so
    that gradients are evaluated near the common model, not at a silo's noisy one. In the second
    half of the rounds the server's rate decreases linearly to 0.
warm_start_rounds : int, default=0
    Number of initial rounds that only estimate the control variates. Each costs as much as any
    other round. Their models are not averaged.
clip_norm : "auto" or float, default="auto"
    The norm that each record's (person's) gradient, or with ``unit="silo"`` each silo's message, is
    clipped to. With
    ``unit="silo"``, "auto" learns the median norm of the messages from one noised bit per silo and
    round, which is charged; ``clip_norm_`` is the final value. Without privacy (``epsilon=inf``)
    "auto" does not clip; a number does.
sampling : {"poisson", "without_replacement", "with_replacement", "disjoint"}, default="poisson"
    How a step samples a silo's records. "with_replacement": independent draws, in which a record
    may come twice and is priced so. "disjoint" makes one pass over the data.
sampling_rate : "auto" or float, default="auto"
    The share of its records that a silo reads in a step.
noise_schedule : tuple, default=None
    ``("round", beta, start)`` or ``("step", beta, start)``: the variance of the noise is multiplied
    by ``beta`` in each round (each local step) after round ``start``.
radius : float, default=None
    The (scaled) parameters are projected onto the ball of this radius after every step of the
    server (of a silo, with ``solver="local"``). Published learning rates use it as the distance to
    the optimum.
average : bool, float or int, default=True
    The rounds whose models are averaged. True: the second half, or none if the server's step
    decreases to 0 (``global_learning_rate``). False: none; the model is that of the last round. A
    float in (0, 1): this share of the rounds, the last ones. An integer k: the last k rounds, or
    all if there are fewer.
calibrate : bool, default=True
    Whether probabilities and coefficients of ``loss="log_loss"`` are scaled by the noise: for
    linear models of two classes by a factor towards the labels' shares, which are counted for 1 to
    15 % of the budget (of mu^2) unless ``classes`` has shares; for others by a factor that is
    estimated for 4 to 12 %. Or whether to spend 4 % on shifting the predictions of
    ``loss="quantile"``, so that the wanted share of targets is below them. Of survival: whether
    events and time are counted, for 1 to 15 %, so that rounds begin at their hazard. Only with
    ``learning_rate="auto"``, an ``epsilon``, a ``trust`` other than "shuffler" and, but for
    survival, a ``unit`` other than "silo"; no effect on other fits.

inference : {None, "intervals"}, default=None
    "intervals": confidence intervals of a linear model's coefficients, in ``summary`` and
    ``contrast``. 70 % of the budget (of mu^2) goes to noised sums at the fitted model, the rest to
    the fit. For two classes, "squared_error", "poisson" and survival, without weights; tables too
    small for the budget are refused before a record is read.
covariance : {"model", "robust", "silos"}, default="model"
    The variance in intervals: that of the model (constant variance of errors, Poisson counts);
    "robust" to it, for a part of the budget; or that between ten or more silos, taken as
    replicates (``trust="silo"``).

Silos
-----
silo_fraction : float, default=1.0
    The share of the silos that takes part in a round.
cohort : {"auto", "balanced", "uniform", "poisson"}, or who answers, default="auto"
    How a round's silos are drawn. "balanced": dealt like cards, so that all take part equally
    often; "uniform": a fixed number at random; "poisson": each independently. "auto" is "balanced",
    except for ``unit="silo"`` with ``trust="server"``, where "poisson" amplifies privacy. With
    another ``unit``, it may also state which silos answer in which round, if public and
    independent of the records: an array of True and False of shape (n_rounds, n_silos) in the order
    of the sorted silo ids, or a frame with a column for each. There is no amplification then; each
    silo pays for the rounds it is in.
silo_weights : {"auto", "size", "uniform"} or mapping, default="auto"
    The silos' public weights in the objective. "auto" is "size" (with ``unit="person"`` the number
    of persons), and "uniform" with ``unit="silo"``. If silos have different budgets, "auto" depends
    on their noise:
    ``n / (n' / d + 4 / mu^2)``, which is proportional to the size for equal budgets.

Running
-------
n_jobs : int, default=None
    Number of threads for large silos. The model does not depend on it.
random_state : int, RandomState, Generator or None, default=None
    None: cryptographically secure noise. Anything else is for simulations: reproducible, and
    private only as long as the seed is secret.
verbose : int, default=0
    If positive, print a line after each tenth of the rounds. scikit-learn's callback
    ``ProgressBar`` shows a bar.

Attributes
----------
coef_ : ndarray of shape (n_outputs, n_features), or (n_features,) of numbers and times
    Coefficients in the units of X if the scaling is affine, else in those of
    ``scaling_.transform(X)``. Curves add columns, which :meth:`get_feature_names_out` names.
intercept_ : ndarray of shape (n_outputs,), or float in regressors
    Intercepts in the same units; of survival times one for each interval, per horizon.
breaks_ : ndarray of shape (n_intervals - 1,)
    The inner ends of the intervals of time.
coef_estimate_ : ndarray of the shape of ``coef_``
    With ``inference="intervals"``: unshrunk estimates, the centres of the intervals. Predictions
    are those of ``coef_``.
coef_covariance_ : ndarray of shape (n_features, n_features)
    Their covariance, of sampling and noise.
coefs_ : list of ndarray of shape (n_in, n_out)
    The weights of each layer of a network, instead of ``coef_``; those of the first are in the same
    units.
intercepts_ : list of ndarray of shape (n_out,)
    The layers' intercepts.
privacy_spent_ : PrivacySpent
    The privacy cost of the fit: ``epsilon, delta = estimator.privacy_spent_``.
plan_ : PrivacyPlan
    The plan that was run and priced.
silo_ids_ : ndarray
    The silos' ids.
n_rounds_ : int
    The number of rounds of the plan.
learning_rate_ : float
    The learning rate (of the first step).
clip_norm_ : float
    The clip norm; the final one if it is learnt, inf without clipping.
smoothing_ : float or None
    The parameter b of the Moreau envelope that replaces a non-smooth loss, else None. The envelope
    is b-smooth in the coefficients of scaled features and at most ``L**2 / (2 b)`` below an
    L-Lipschitz loss.
sampling_rate_ : float
    The share of its records that a silo reads in a step.
model_ : Model
    The model, without its parameters: see :class:`skdpfl.models.Model`.
scaling_ : object
    The scaling of the features; ``scaling_.transform(X)`` applies it.
n_iter_ : int
    The number of rounds that ran.
n_features_in_ : int
    The number of features, without the silo column.
feature_names_in_ : ndarray
    Names of the features, if X has names that are strings.
schema_ : Encoding or None
    What each column of a frame holds, and the columns of numbers that it became: a mapping from
    column to :class:`skdpfl.encoding.EncodedColumn`. None for tables of numbers.
local_steps_ : int or tuple
    The gradient steps of a silo in a round.
global_learning_rate_ : float
    The server's learning rate for the silos' mean update, in the first half of the rounds.
classes_ : ndarray
    The labels.
shift_ : float
    The constant added to all predictions after the rounds.
temperature_ : float
    The number by which raw predictions, and so the coefficients, were divided after the rounds:
    below 1 where these ended early. If noise hides the signal, their distance from the log odds of
    the labels' shares is divided by it.
class_shares_ : ndarray of shape (n_classes,) or None
    The labels' shares: those in ``classes``, or those counted within the budget.

Notes
-----
**Formal guarantee.** ``unit="record"``: everything a silo sends, given what the others sent, is
(epsilon, delta)-DP for its records; ``unit="person"``: for persons, whose rows give one clipped
gradient a step. ``unit="silo"``: the messages (``trust="silo"``) or the
sequence of models (``trust="server"``) are for whole silos. Proof: what leaves is a function of
clipped and noised sums, whose sensitivity, noise and sampling are those of ``plan_``;
``privacy_spent_`` composes exactly the releases of ``plan_``. ``trust="secagg"``: what the server
and the colluding silos together learn from the sums is (epsilon, delta)-DP
(:mod:`skdpfl.privacy.mechanisms.whole_silos`).
"""

import difflib
import functools
import inspect
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


def _sections(doc: str | None) -> dict[str, str]:
    """Return the sections of a docstring by heading; the text before the first is under ""."""
    parts = re.split(r"^(\S.*)\n-{3,}\n", inspect.cleandoc(doc or ""), flags=re.MULTILINE)
    texts = zip(["", *parts[1::2]], parts[::2], strict=True)
    return {heading: text.strip() for heading, text in texts}


def _entries(section: str) -> dict[str, str]:
    """Return the type and meaning of each name in a section."""
    parts = re.split(r"^(\w+) : ", section, flags=re.MULTILINE)
    return {n: text.rstrip() for n, text in zip(parts[1::2], parts[2::2], strict=True)}


_SHARED = _sections(__doc__)
#: heading -> name -> type and meaning, in the order of the constructors
GROUPS = {heading: _entries(text) for heading, text in _SHARED.items()}
for _other in ("", "Attributes", "Notes"):
    GROUPS.pop(_other, None)
#: fitted attribute -> the parameters that it comes with
_COMES_WITH = {
    "breaks_": {"breaks"},
    "local_steps_": {"local_steps"},
    "global_learning_rate_": {"global_learning_rate"},
    "classes_": {"classes"},
    "shift_": {"calibrate", "target_bounds", "loss"},
    "temperature_": {"calibrate", "classes"},
    "class_shares_": {"calibrate", "classes"},
    "coef_estimate_": {"inference"},
    "coef_covariance_": {"inference"},
}

#: the estimators of a family, and their targets
KINDS = {"Classifier": "labels", "Regressor": "numbers", "Survival": "censored times"}
#: family -> its use
FAMILIES = {
    "ISRLDP": "One private gradient per round, or accelerated solvers.",
    "DPScaffold": "Local steps, corrected against client drift.",
    "DPFedAvg": "Local steps or epochs, averaged.",
    "DPFedEXP": "Many silos, each protected as a whole, with adaptive server steps.",
    "DPFederated": "Any algorithm object, also a user-defined one.",
}


#: parameters of other libraries' models (scikit-learn, diffprivlib, Opacus) -> the alternative
_ANSWERS = {
    "class_weight": "it is for classifiers; fit takes a sample_weight.",
    "quantile": "give loss=skdpfl.losses.Quantile(q).",
    "C": "give alpha=1 / (n_records * C).",
    "penalty": "alpha is the strength of the squared penalty; alpha=0 is none.",
    "l1_ratio": "alpha is the strength of a squared (L2) penalty; there is no L1 penalty.",
    "max_iter": "give n_rounds; each round has a cost, so their number is fixed before the fit.",
    "tol": "n_rounds is fixed before the fit; when to stop would be learnt from the data.",
    "warm_start": "every fit starts anew and has its own cost, privacy_spent_, which adds up.",
    "shuffle": "sampling says how a step draws records.",
    "batch_size": "sampling_rate is the share of its records that a silo reads in a step.",
    "eta0 learning_rate_init lr": "give learning_rate.",
    "hidden_layer_sizes": "give model=skdpfl.models.MLP(hidden_layer_sizes=...).",
    "activation": "give model=skdpfl.models.MLP(activation=...).",
    "epochs n_iter": "give n_rounds.",
    "n_epochs": "give n_rounds; DPFedAvg also has local_epochs, passes over a silo's records.",
    "bounds": "give feature_bounds, and target_bounds to a regressor: (low, high), public numbers.",
    "bounds_X": "give feature_bounds=(low, high), public numbers.",
    "bounds_y": "give target_bounds=(low, high), public numbers.",
    "data_norm": "give feature_bounds, public ranges of the columns; clip_norm cuts gradients.",
    "max_grad_norm max_norm l2_norm_clip": "give clip_norm.",
    "eps target_epsilon": "give epsilon.",
    "target_delta": "give delta.",
    "noise_scale sigma": "give epsilon, or epsilon=None and noise_multiplier (over clip_norm).",
    "accountant": "privacy_spent_ is the cost of a fit; a PrivacyLedger adds up several fits.",
    "silos": "give them to fit(X, y, silos=...), or name their column: silo_column.",
    "groups clients": "give silos to fit(X, y, silos=...), or name their column: silo_column.",
    "n_silos n_clients": "fit counts the ids in silos=...; n_jobs is how many threads work.",
    "client_rate": "give silo_fraction, the share of the silos that answer in a round.",
    "seed": "give random_state.",
    "unit": "DPFedEXP protects whole silos; the other estimators have a unit.",
    "person_column": "DPFedEXP protects whole silos, with all persons in them.",
    "persons": "give them to fit(X, y, persons=...), or name their column: person_column.",
    "local_epochs": "DPFedAvg has it; elsewhere give n_rounds and local_steps.",
}
INSTEAD = {name: answer for names, answer in _ANSWERS.items() for name in names.split()}


#: how alike a name must be to be taken for another one's wrong spelling
_ALIKE = 0.8


def refusing_parameters(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor with the same signature that names the alternative in its errors."""
    known = frozenset(inspect.signature(init).parameters)

    @functools.wraps(init)
    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        refuse_parameters(self, kwargs, known, TypeError)
        init(self, *args, **kwargs)

    return constructor


def refuse_parameters(
    estimator: Any, parameters: Mapping[str, Any], known: Collection[str], error: type[Exception]
) -> None:
    """Raise for parameter names of other libraries, and for misspelt names."""
    kind = type(estimator).__name__
    for name, value in parameters.items():
        if name in known or "__" in name:
            continue
        if name in INSTEAD:
            raise error(f"{kind} has no {name} (got {reprlib.repr(value)}): {INSTEAD[name]}")
        if meant := difflib.get_close_matches(name, known, 1, _ALIKE):
            raise error(f"{kind} has no {name}; did you mean {meant[0]}?")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_constructor(cls: type[T]) -> type[T]:
    """Make a constructor whose keyword parameters are the class's annotated attributes.

    Inherited ones are included. They are in the order of ``GROUPS``.
    """
    dataclass(eq=False, repr=False, kw_only=True)(cls)
    signature = inspect.signature(cls.__init__)
    self, *others = signature.parameters.values()
    order = [name for group in GROUPS.values() for name in group]
    others.sort(key=lambda parameter: order.index(parameter.name) if order else 0)
    cls.__init__ = refusing_parameters(cls.__init__)  # type: ignore[method-assign]
    cls.__init__.__signature__ = signature.replace(parameters=[self, *others])  # type: ignore[attr-defined]
    return cls


def see_also(name: str) -> str:
    """Return the See Also section of an estimator."""
    kind = next(kind for kind in KINDS if name.endswith(kind))
    family = name.removesuffix(kind)
    with_times = ("ISRLDP", "DPFedAvg", "DPFederated")
    lines = [
        f"{family}{twin} : The same for {targets}."
        for twin, targets in KINDS.items()
        if twin != kind and (twin != "Survival" or family in with_times)
    ]
    known = with_times if kind == "Survival" else tuple(FAMILIES)
    lines += [f"{f}{kind} : {FAMILIES[f]}" for f in known if f != family]
    return "\n\nSee Also\n--------\n" + "\n".join(lines)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def documented(cls: type[T]) -> type[T]:
    """Add the constructor, and the shared sections of the docstring."""
    cls, family = with_constructor(cls), _sections(cls.__mro__[1].__doc__)
    if not GROUPS:  # Python leaves out docstrings
        return cls
    about, names = family[""].partition("\n\n")[2], list(inspect.signature(cls).parameters)
    texts = {name: text for group in GROUPS.values() for name, text in group.items()}
    texts |= _entries(family.get("Parameters", ""))
    losses = [f'"{loss}"' for loss in cls._losses]  # type: ignore[attr-defined]
    choices = f"{{{', '.join(losses)}}} or Loss, default={losses[0]}"
    texts["loss"] = texts["loss"].format(choices=choices)
    texts["model"] = texts["model"].format(model=cls.model)  # type: ignore[attr-defined]
    parameters = "\n".join(f"{name} : {texts[name]}" for name in names)
    summary, mark, examples = inspect.cleandoc(cls.__doc__ or "").partition("\n\nExamples\n---")
    fitted = _entries(f"{_SHARED['Attributes']}\n{family.get('Attributes', '')}")
    own = [f"{n} : {text}" for n, text in fitted.items() if _COMES_WITH.get(n, set()) <= {*names}]
    notes = family.get("Notes", _SHARED["Notes"])
    cls.__doc__ = (
        f"{summary}\n\n{about}\n\nParameters\n----------\n{parameters}\n\n"
        "Attributes\n----------\n"
        + "\n".join(own)
        + f"{see_also(cls.__name__)}\n\nNotes\n-----\n{notes}{mark}{examples}\n"
    )
    return cls
