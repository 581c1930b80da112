"""Blocks of the report for a board: tables that follow from the cost and from what was declared.

**The attacker.** For a guarantee with profile delta(epsilon), a test between two neighbouring data
sets with false positive rate a has a true positive rate of at most::

    min over e of   min( exp(e) a + delta(e),  1 - exp(-e) (1 - delta(e) - a) )

over all epsilons e, which is the trade-off curve of the fit (Kairouz, Oh, Viswanath 2015; Dong,
Roth, Su 2022). It bounds membership inference by whoever knows all other records. Each epsilon
gives a bound, so a grid does, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from skdpfl._arguments import at_most, epsilon_text
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.spending.spent import PrivacySpent

#: false positive rates at which an attacker's true positive rate is bounded, and the grid
RATES, _EPSILONS = (0.001, 0.01), np.concatenate([[0.0], np.geomspace(0.01, 40.0, 48)])
#: the deltas of the curve; below the first prices are not certified
_DELTAS = np.logspace(-10, -2, 65)
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 310, 60, 34, 45

#: what a trust rests on
ASSUMED = {
    "silo": "Each silo runs this software on its own computer, with random numbers that nobody "
    "else knows. Nothing is assumed of the server, the network or other silos: whatever they do, "
    "a silo adds its noise, and refuses what is not in the plan that it priced.",
    "secagg": "The silos' masks hold: their keys are exchanged outside the server, and hardness of "
    "the key agreement. At most {colluding} of the other silos tell the server what they know, or "
    "add too little noise.",
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
    found = {}
    for rate in RATES:
        by_ratio = np.exp(_EPSILONS) * rate + deltas
        by_miss = 1 - np.exp(-_EPSILONS) * np.maximum(1 - deltas - rate, 0.0)
        found[rate] = float(min(1.0, by_ratio.min(), by_miss.min()))
    return found


def compared(spent: PrivacySpent) -> dict[str, str]:
    """Return rows with the cost in other currencies, and the attacker's success."""
    mu = gaussian_mu(spent.epsilon, spent.delta)
    rows = {
        "For comparison": f"a Gaussian mechanism with this epsilon and delta has mu = {mu:.3g} "
        f"(Gaussian differential privacy) and rho = {mu**2 / 2:.3g} (zero-concentrated)"
    }
    for rate, most in attack_rates(spent).items():
        rows[f"An attack with {100 * rate:g} false alarms in 100"] = (
            f"finds at most {at_most(100 * most, decimals=1)} of 100 {spent.unit}s; "
            f"{100 * rate:g} by chance"
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
        said = f"{float(score):.3g}"
        if (noise := getattr(score, "noise", None)) is not None:
            said += f", with noise of deviation {float(noise):.2g}"
        if (spent := getattr(score, "privacy_spent", None)) is not None:
            said += (
                f"; cost epsilon {epsilon_text(spent.epsilon)} at delta {spent.delta:g}, in "
                "addition to the fit"
            )
        elif not hasattr(score, "noise"):
            said += " (as declared: no cost of it is on this page)"
        rows[str(name)] = said
    return rows


def curve_of(spent: PrivacySpent) -> str:
    """Return a plot of epsilon over delta as SVG."""
    if math.isinf(spent.epsilon):
        return "<p>There is none.</p>"
    least = [spent.epsilon_at(float(delta)) for delta in _DELTAS]
    points = [(d, e) for d, e in zip(_DELTAS.tolist(), least, strict=True) if math.isfinite(e)]
    top = max(e for _, e in points) * 1.08 or 1.0
    across = (_WIDTH - _LEFT - 15) / (math.log10(_DELTAS[-1]) - math.log10(_DELTAS[0]))

    def at(delta: float, epsilon: float) -> tuple[float, float]:
        x = _LEFT + across * (math.log10(delta) - math.log10(_DELTAS[0]))
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * epsilon / top

    line = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in points)
    parts = [f'<polyline points="{line}" fill="none" stroke="#0072B2" stroke-width="2"/>']
    for power in range(-10, -1, 2):
        x, y = at(10.0**power, 0.0)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">1e{power}</text>')
    for k in range(5):
        x, y = at(_DELTAS[0], top * k / 4)
        parts.append(f'<line x1="{x:.1f}" x2="{_WIDTH - 15}" y1="{y:.1f}" y2="{y:.1f}" '
                     f'stroke="#ddd"/><text x="{x - 6:.1f}" y="{y + 4:.1f}" '
                     f'text-anchor="end">{top * k / 4:.2g}</text>')  # fmt: skip
    if _DELTAS[0] <= spent.delta <= _DELTAS[-1]:
        x, y = at(spent.delta, spent.epsilon)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="#D55E00"/>')
    x, y = (_WIDTH + _LEFT) / 2, _HEIGHT - 6
    parts.append(f'<text x="{x}" y="{y}" text-anchor="middle">delta</text>')
    parts.append(f'<text x="4" y="{_TOP - 18}">epsilon</text>')
    said = f"epsilon {epsilon_text(spent.epsilon)} at delta {spent.delta:g}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-size="13" '
        f'aria-label="Epsilon over delta: {said}">{"".join(parts)}</svg>'
        f"<p>The dot is the stated pair: {said}. All pairs hold at once.</p>"
    )


def section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}"


def table_of(rows: dict[str, str]) -> str:
    """Return a table with rows of a name and a text, both escaped."""
    cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
    return f"<table>{''.join(cells)}</table>"
