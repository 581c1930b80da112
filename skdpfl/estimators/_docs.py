"""Parameter documentation, written once: a class's section is made from its signature.

The pages of the reference show the groups as headings; a docstring has the parameters only, as
readers of docstrings expect.
"""

from __future__ import annotations

import inspect
from typing import TypeVar

T = TypeVar("T", bound=type)

#: heading -> name -> type and meaning, in the order of the constructors
GROUPS = {
    "Budget, data and objective": {
        "epsilon": """float, mapping or None, default=1.0
    The privacy budget: a positive number, ``inf`` for no privacy at all, or a mapping from silo id
    to number that gives each silo its own. None if ``noise_multiplier`` is given.""",
        "delta": """"auto", float or mapping, default="auto"
    The second half of the budget. "auto" is the largest power of ten that is at most
    1 / (10 n_records), or 1 / (10 n_silos) where whole silos are protected.""",
        "feature_bounds": """(low, high) or mapping, default=None
    Public bounds of the features: scalars, arrays, Series (by column name where both have names),
    or a mapping from column to (low, high). A column with low == high is ignored.""",
        "target_bounds": """(low, high), default=None
    Public bounds of the target.""",
        "silo_column": """str, default=None
    The column of X that holds the silo ids, instead of ``silos`` in ``fit``.""",
        "classes": """array-like, default=None
    The label set, if it is to be fixed beforehand; by default the labels in ``y``. Public.""",
        "loss": """str
    The loss whose weighted mean over the records is minimised. One with a kink (hinge, absolute
    error, quantile) is replaced by its Moreau envelope, as smooth as noise and number of records
    would hide anyway. "poisson" is for counts and other targets of at least 0, which are then
    scaled but not shifted: ``predict`` gives ``exp(X @ coef_ + intercept_)``.""",
        "alpha": """float, default=0.0
    The penalty ``alpha / 2 * |w|^2`` is added to the mean loss; the intercept is not penalised.
    Ridge's ``alpha`` is n_records times this one, LogisticRegression's ``C`` is
    1 / (n_records * alpha). The weights are those of the scaled columns (and target), as behind a
    StandardScaler; give ``scaling=None`` for the units of ``X`` and ``y``.""",
        "fit_intercept": """bool, default=True
    Whether the model has an intercept. Without one columns and target are scaled, not centred: zero
    stays zero.""",
        "huber_delta": """float, default=1.35
    Where Huber's loss turns from square to linear, in units of the (scaled) target.""",
        "quantile": """float, default=0.5
    Which quantile ``loss="quantile"`` predicts.""",
        "scaling": """{"auto", "private"} or None, default="auto"
    How features (and the target) are brought to one scale. "auto" uses the bounds; without bounds
    scales are found within the budget where that will work. None leaves everything as it is.""",
    },
    "Privacy": {
        "unit": """{"record", "silo"}, default="record"
    What is protected: one record, or everything a silo holds.""",
        "trust": """{"silo", "shuffler", "server"}, default="silo"
    Whom a person in the data trusts beyond the own silo. "silo": nobody; whatever leaves a silo is
    private. "server": the server sees exact sums and adds the noise. "shuffler": somebody mixes
    the messages of a round, so that the server does not learn who sent which.""",
        "neighbours": """{"auto", "replace", "add_remove"}, default="auto"
    The relation that the guarantee is about: one record (silo) is replaced, or its contribution is
    set to zero. "auto" is "replace", but for ``unit="silo"`` with ``trust="server"``.""",
        "noise_multiplier": """float, default=None
    Instead of a budget (``epsilon=None``): the noise's standard deviation on the clipped sum over
    ``clip_norm``.""",
    },
    "Rounds and steps": {
        "solver": """{"minibatch", "accelerated", "multistage", "local"}, default="minibatch"
    The optimisation method. "minibatch": a step along the silos' mean gradient, with momentum at
    the server if ``learning_rate="auto"``. "accelerated": the same gradients at a point between two
    sequences (AC-SA); fewer rounds. "multistage": that in stages; needs ``alpha > 0``. "local":
    ``local_steps`` steps of each silo by itself; ``trust="silo"`` only. ``local_steps`` is an error
    with the other three; ``radius``, ``average`` and ``sampling="disjoint"`` are for all.""",
        "algorithm": """Algorithm, default=None
    An object of :class:`skdpfl.algorithms.Algorithm`; None is DP-FedAvg with one local step.""",
        "mechanism": """{"gaussian", "privunit"}, default="gaussian"
    How silos make their messages private under ``trust="silo"``. "privunit" is pure local privacy:
    the message's direction by PrivUnit, its norm by ScalarDP.""",
        "n_rounds": """"auto" or int, default="auto"
    The number of rounds.""",
        "local_steps": """"auto", int or sequence of int, default="auto"
    Gradient steps of a silo in a round; a sequence has one number per round. "auto" is 1 without
    privacy, so that nothing drifts.""",
        "local_epochs": """float or sequence, default=None
    Instead of ``local_steps``: passes over a silo's records in a round (divided by the sampling
    rate this is the number of steps).""",
        "learning_rate": """"auto" or float, default="auto"
    The step on the average clipped gradient, sum / (sampling_rate * n_i); where whole silos are
    protected, a silo's own step on its mean gradient.""",
        "momentum": """float, default=0.0
    Heavy-ball momentum of the local steps, starting anew each round; with ``local_steps=1`` of the
    server's steps.""",
        "global_learning_rate": """"auto" or float, default="auto"
    The server's step on the mean of the silos' moves. "auto" is 1, but for several local steps
    whose ``learning_rate`` is "auto" as well: there silos take short steps and the server a long
    one, so that gradients are not evaluated where a silo's own noise has led it.""",
        "warm_start_rounds": """int, default=0
    First rounds that learn the control variates only. They cost as much as any other round.""",
        "clip_norm": """"auto" or float, default="auto"
    The norm that each record's gradient (``unit="silo"``: each silo's message) is clipped to. A
    message's norm is learnt under "auto": half of them stay as they are, by a noised bit of each
    silo in each round, which is part of what is charged; ``clip_norm_`` is where it ended. Without
    privacy (``epsilon=inf``) a norm that was given clips as well, and "auto" does not.""",
        "sampling": """{"poisson", "without_replacement", "disjoint"}, default="poisson"
    How a step draws a silo's records; what is drawn is what is priced. "disjoint" makes one pass
    over the data.""",
        "sampling_rate": """"auto" or float, default="auto"
    The share of its records that a silo reads in a step.""",
        "noise_schedule": """tuple, default=None
    ``("round", beta, start)`` or ``("step", beta, start)``: the noise's variance falls by the
    factor ``beta`` each round (each local step) after round ``start``.""",
        "radius": """float, default=None
    Keep the (scaled) parameters within this distance of zero, after every step of the server (of a
    silo, with ``solver="local"``). Published steps take it for the distance to the optimum.""",
        "average": """bool, float or int, default=True
    Which rounds' models are averaged into the one that is given out. True: those of the second
    half. False: none, the last model is given out. A float in (0, 1): those of this last share of
    the rounds. An integer k: those of the last k rounds, or of all if there are fewer.""",
        "half": """bool, default=False
    Halve the numerator of the server's step, as FedExP was published (with ``average=2``).""",
        "calibrate": """bool, default=True
    Whether 4 % of the budget (of mu^2) pay for the scale of the raw predictions, so that the
    probabilities and coefficients of ``loss="log_loss"`` are neither too extreme nor too timid.
    Only where ``learning_rate`` is "auto" and single records are protected under an ``epsilon``,
    with ``trust`` "silo" or "server"; other fits stay as they are.""",
    },
    "Silos": {
        "silo_fraction": """float, default=1.0
    The share of the silos that takes part in a round.""",
        "cohort": """{"auto", "balanced", "uniform", "poisson"}, or who answers, default="auto"
    How a round's silos are drawn: dealt like cards, so that all take part equally often; a fixed
    number; or each by its own coin. "auto" is "balanced", but for ``unit="silo"`` with
    ``trust="server"``, where "poisson" amplifies privacy. For records, who answers in which round
    may also be given, as public knowledge that the records had no part in: a mapping from silo id
    to the numbers of its rounds (from 0), an array of True and False of shape (n_rounds, n_silos)
    in the order of the sorted silo ids (or a frame with a column for each), or a callable
    ``(round, silo_sizes)`` that returns True or False for each silo. Nothing is amplified, each
    silo pays for the rounds it is in.""",
        "silo_weights": """{"auto", "size", "uniform"} or mapping, default="auto"
    The silos' public weights in the objective. "auto" is "size" for records, "uniform" for
    silos. Where silos have budgets of their own, "auto" counts a silo for what it can say at its
    noise, n / (n' / d + 4 / mu^2); equal budgets make that its size.""",
    },
    "Running": {
        "n_jobs": """int, default=None
    Threads over large silos. The model does not depend on it.""",
        "random_state": """int, RandomState, Generator or None, default=None
    None draws cryptographic noise. Anything else is a simulation: reproducible, and private only as
    long as nobody knows the seed.""",
        "verbose": """int, default=0
    Show a bar of the rounds with the time left (by rich, if it is installed).""",
    },
}

FITTED = """
Attributes
----------
coef_ : ndarray of shape (n_outputs, n_features), or (n_features,) in regressors
    Coefficients in the units of X where the scaling is affine, else of
    ``scaling_.transform(X)``.
intercept_ : ndarray of shape (n_outputs,), or float in regressors
    Intercepts in the same units.
privacy_spent_ : PrivacySpent
    What the fit cost: ``epsilon, delta = estimator.privacy_spent_``.
plan_ : PrivacyPlan
    What was run and priced.
silo_ids_ : ndarray
    The silos' ids.
n_rounds_ : int
    The number of rounds of the plan.
local_steps_ : int or tuple
    The gradient steps of a silo in a round, where ``local_steps`` is a parameter.
learning_rate_ : float
    The (first) step.
global_learning_rate_ : float
    The server's step on the mean of the silos' moves, where ``global_learning_rate`` is a
    parameter.
clip_norm_ : float
    The norm that was clipped to; where it is learnt, the last one; inf where nothing is clipped.
sampling_rate_ : float
    The share of its records that a silo read in a step.
model_ : Model
    What was trained, without its parameters: see :class:`skdpfl.models.Model`.
scaling_ : object
    How features were scaled; ``scaling_.transform(X)`` does it.
n_iter_ : int
    The number of rounds that ran.
n_features_in_ : int
    The number of features, the silo column not counted.
feature_names_in_ : ndarray
    Their names, if X has names that are strings.
"""

#: family -> what it is good for
FAMILIES = {
    "ISRLDP": "One private gradient a round, or the accelerated solvers.",
    "DPScaffold": "Local steps that unlike silos do not drift in.",
    "DPFedAvg": "Local steps or epochs, averaged.",
    "DPFedEXP": "Many silos, each protected as a whole, with adaptive server steps.",
    "DPFederated": "Any algorithm object, also one's own.",
}


def see_also(name: str) -> str:
    """Return the section that points from one estimator to the others of its kind."""
    kind = "Classifier" if name.endswith("Classifier") else "Regressor"
    twin = "Regressor" if kind == "Classifier" else "Classifier"
    family = name.removesuffix(kind)
    lines = [f"{family}{twin} : The same for {'numbers' if twin == 'Regressor' else 'labels'}."]
    lines += [f"{f}{kind} : {words}" for f, words in FAMILIES.items() if f != family]
    return "\n\nSee Also\n--------\n" + "\n".join(lines)


def documented(cls: T) -> T:
    """Put Parameters, Attributes and See Also behind the first paragraphs of a docstring."""
    names = [n for n in inspect.signature(cls).parameters]
    texts = {name: text for group in GROUPS.values() for name, text in group.items()}
    texts |= getattr(cls, "_parameter_docs", {})
    parameters = "\n".join(f"{name} : {texts[name]}" for name in names)
    summary, mark, rest = inspect.cleandoc(cls.__doc__ or "").partition("\n\nNotes\n-----")
    fitted = FITTED.rstrip() + getattr(cls, "_fitted_docs", "")
    if "classes" in names:
        fitted += "\nclasses_ : ndarray\n    The labels."
    if "calibrate" in names:
        fitted += (
            "\ntemperature_ : float\n    What raw predictions, and with them coefficients, were "
            "divided by after the rounds."
        )
    others = see_also(cls.__name__)
    cls.__doc__ = (
        f"{summary}\n\nParameters\n----------\n{parameters}\n{fitted}{others}{mark}{rest}\n"
    )
    return cls
