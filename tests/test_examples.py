"""The examples run, and the demo prints its table; slow ones only in the slow suite."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PAID = Path(__file__).parent / "paid.py"
STORIES = sorted(p.name for p in EXAMPLES.glob("plot_*.py"))


def run(script, *args, cwd):
    env = os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    quiet = "ignore:.*non-interactive.*:UserWarning", "ignore:The noise will drown:UserWarning"
    command = [sys.executable, "-W", quiet[0], "-W", quiet[1], script, *args]  # budgets are small
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_stories_run_without_warnings_and_all_is_paid_for(half, tmp_path):
    """In two processes: each takes two seconds to import what they need."""
    done = run(str(PAID), *(str(EXAMPLES / name) for name in STORIES[half::2]), cwd=tmp_path)
    assert "Warning" not in done.stderr, done.stderr


@pytest.mark.slow
def test_the_demo_in_quick_mode(tmp_path):
    done = run(str(EXAMPLES / "demo.py"), "--quick", "--output", "picture.png", cwd=tmp_path)
    assert done.stdout.count("ε = 1 ") == done.stdout.count("constant prediction: ") == 4
    assert "raw frame" in done.stdout
    assert "DP-SCAFFOLD" in done.stdout
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.slow
def test_gates_by_sockets(tmp_path):
    done = run(str(EXAMPLES / "sockets.py"), "--rounds", "5", cwd=tmp_path)
    assert "The same model as in one process" in done.stdout
