"""What ``race.py`` writes: the table and the pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from races import SETTINGS
from where import header

NOTES = """
Every method chooses from the same grid of local learning rates and clip norms; FedAvg\\* tries each
point with three steps of the server, so three times as many runs (a step of one is FedAvg). All are
chosen without a price, on a seed of their own: this compares methods at their best. PrivUnit is
FedEXP with that mechanism. A curve is the mean of the last two models; five seeds differ in noise,
cohorts and batches, not in the data.
"""

LOOKS = {
    "FedEXP": ("#0072B2", "-"),
    "FedAvg": ("#D55E00", "--"),
    "SCAFFOLD": ("#009E73", "-."),
    "FedAvg*": ("#CC79A7", ":"),
    "PrivUnit": ("#000000", "-"),
}


def save(results: dict, folder: Path) -> None:
    """Write ``race.json``, ``race.md`` and the pictures."""
    (folder / "race.json").write_text(compact(results))
    (folder / "race.md").write_text(f"{header()}\n\n{table(results)}{NOTES}")
    for figure in dict.fromkeys(SETTINGS[name].figure for name in results):
        shown = {k: r for k, r in results.items() if SETTINGS[k].figure == figure}
        plot(shown, folder / f"{figure}.png")


def compact(results: dict) -> str:
    """JSON with a line a method."""
    races = []
    for name, race in results.items():
        head = {k: v for k, v in race.items() if k != "methods"}
        lines = [f"  {json.dumps(m)}: {json.dumps(found)}" for m, found in race["methods"].items()]
        methods = ",\n".join(lines)
        races.append(f'{json.dumps(name)}: {json.dumps(head)[:-1]}, "methods": {{\n{methods}}}}}')
    return "{\n" + ",\n".join(races) + "\n}\n"


def table(results: dict) -> str:
    """Markdown: medians over seeds, and what was chosen."""
    lines = [
        "| race | epsilon | goal | method | rounds needed: median (all) | last score: mean (range) "
        "| rate, clip norm, server's step | processor seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results.values():
        for method, m in r["methods"].items():
            needed = ", ".join(_rounds(x) for x in m["rounds"])
            last = f"{np.mean(m['last']):.3f} ({min(m['last']):.3f}-{max(m['last']):.3f})"
            steps = f"{m['learning_rate']:g}, {m['clip_norm']:g}, "
            steps += "its own" if m["steps"][0] else f"{m['server_step']:g}"
            name = method.replace("*", "\\*")
            lines.append(
                f"| {r['title']} | {m['epsilon']:.3g} | {r['words']} <= {r['goal']} | {name} | "
                f"{_rounds(float(np.median(m['rounds'])))} ({needed}) | {last} | {steps} | "
                f"{m['cpu_seconds']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def _rounds(x: float) -> str:
    return "never" if np.isinf(x) else f"{x:.0f}"


def plot(results: dict, path: Path) -> None:
    """Curves over rounds: a panel a race, a line a method, a band over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = min(3, len(results))
    rows = -(-len(results) // n)
    fig, axes = plt.subplots(
        rows, n, figsize=(4.0 * n, 3.3 * rows), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(results) :]:
        ax.set_axis_off()
    for ax, r in zip(axes.flat, results.values(), strict=False):
        _panel(ax, r)
    fig.savefig(path, dpi=110)


def _panel(ax, r: dict) -> None:
    """Draw one race: means over seeds and their range."""
    for method, m in r["methods"].items():
        colour, dash = LOOKS[method]
        scores = np.array(m["scores"])
        x = np.arange(1, scores.shape[1] + 1)
        ax.plot(x, scores.mean(axis=0), dash, color=colour, label=method)
        ax.fill_between(x, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.2)
    ax.axhline(r["goal"], color="grey", lw=0.8, ls=":")
    epsilon = next(iter(r["methods"].values()))["epsilon"]
    ax.set(title=r["title"].replace(", ", ",\n", 1) + f", ε = {epsilon:.2g}", xlabel="round")
    ax.xaxis.get_major_locator().set_params(integer=True)
    first = max(m["scores"][0][0] for m in r["methods"].values())
    ax.set(ylabel=r["words"], ylim=(0, min(1.1, 1.1 * first)))
    ax.title.set_fontsize(9)
    ax.legend(fontsize=8)
