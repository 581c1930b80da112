"""What fits with unit="silo" do differently, apart from where noise is added."""

from __future__ import annotations

import dataclasses
import math

from skdpfl._warnings import warn
from skdpfl.algorithms import Algorithm, whole_silo_control_rate
from skdpfl.choosing._committed import Committed
from skdpfl.choosing._facts import Settings
from skdpfl.choosing._request import Request
from skdpfl.privacy.mechanisms import LearntClip, Mechanism, NoPrivacy, WholeMessages

#: the initial value of a learnt clip norm, as a share of the highest it may take
START = 0.3
#: learning rate of control variates where some silos take part in a round and unit="record"
_SLOW = 0.2


def first_clip_norm(request: Request, settings: Settings) -> float:
    """Return the clip norm of gradients (unit "silo": of messages in the first round).

    Fits without privacy clip as well if a norm was given, but not with "auto".
    """
    if request.guarantee.is_exact and request.clip_norm is None:
        return math.inf
    if learns_clip_norm(request):
        return START * settings.clip_norm
    return settings.clip_norm


def learns_clip_norm(request: Request) -> bool:
    """Whether the clip norm of messages is learnt during training."""
    return request.guarantee.hides_silos and request.clip_norm is None


def adapted(
    mechanism: Mechanism, request: Request, algorithm: Algorithm, settings: Settings
) -> Mechanism:
    """Return the mechanism adapted to the algorithm and to an automatic clip norm."""
    if isinstance(mechanism, NoPrivacy):
        return dataclasses.replace(mechanism, squared_norms=algorithm.reads_squared_norm)
    if isinstance(mechanism, WholeMessages):
        return dataclasses.replace(
            mechanism,
            squared_norms=algorithm.reads_squared_norm,
            clipping=LearntClip(highest=settings.clip_norm) if learns_clip_norm(request) else None,
        )
    if algorithm.reads_squared_norm:
        raise ValueError(
            f"{type(algorithm).__name__} reads the squared norms of the messages, which are "
            f'released where whole silos are protected: give unit="silo", not '
            f"{request.guarantee.unit!r}."
        )
    return mechanism


def control_rate(committed: Committed) -> float:
    """Return the learning rate of SCAFFOLD's control variates: lower under noise on messages.

    With unit="record" and partial participation the noise in a control variate is used again many
    rounds later. With a given learning rate the fit is the published algorithm.
    """
    plan = committed.plan
    if not plan.private:
        return 1.0
    if plan.unit == "record":
        return _SLOW if plan.silo_fraction < 1 and committed.request.chooses_step else 1.0
    return whole_silo_control_rate(plan.n_rounds, plan.silo_fraction, relative_noise(committed))


def relative_noise(committed: Committed) -> float:
    """Return the norm of the noise on a round's mean message, in clip norms."""
    plan = committed.plan
    assert isinstance(plan.mechanism, WholeMessages)
    return plan.mechanism.noise_norm(plan, committed.request.model.size) / plan.clip_norm


def warn_of_noise(committed: Committed) -> None:
    """Warn if even the average of all rounds would be mostly noise."""
    plan = committed.plan
    budget = committed.request.guarantee.epsilon
    if plan.unit == "record" or not plan.private or budget is None:
        return
    noise = relative_noise(committed) / plan.n_rounds**0.5
    if noise <= 1:
        return
    needed = plan.n_silos * (noise if plan.trust == "server" else noise**2)
    warn(
        f"Hiding a whole silo among {plan.n_silos} takes noise that leaves nothing of the data: "
        f"averaged over all rounds it is {noise:.2g} times the largest norm of a silo's message. "
        f"About {needed:.2g} silos are needed at this budget"
        + ("" if plan.trust == "server" else ', fewer with trust="server"')
        + '; unit="record" protects single records with far less.'
    )
