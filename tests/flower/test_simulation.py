"""Flower's simulation engine runs the same apps: the example checks itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("ray")

SCRIPT = Path(__file__).parents[2] / "examples" / "flower" / "simulation.py"


@pytest.mark.slow
def test_a_simulated_fit_is_that_of_one_process():
    environment = os.environ | {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, str(SCRIPT)]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "bit-identical" in ran.stdout
