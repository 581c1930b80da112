"""Tuning fits on disk while a cell is being run: a search that was stopped goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from _common.cells import Cell, Fit, as_fit


class Memory:
    """The values of a cell's tuning fits, a line each, until the cell is in its table."""

    def __init__(self, table: Path, cell: Cell) -> None:
        name = hashlib.sha256(repr(cell.key).encode()).hexdigest()[:12]
        self.path = table.with_suffix(f".{name}.tuning")
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.known: dict[str, float] = dict(json.loads(line) for line in lines)

    def remembering(self, cell: Cell, tuning: tuple[int, ...]) -> Cell:
        """Return the cell, whose fits on tuning seeds are made once."""

        def measure(seed: int, **point: Any) -> Fit | float:
            name = json.dumps([seed, point], sort_keys=True)
            if seed not in tuning:
                return cell.measure(seed, **point)
            if name not in self.known:
                self.known[name] = as_fit(cell.measure(seed, **point)).value
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a") as file:
                    file.write(json.dumps([name, self.known[name]]) + "\n")
            return self.known[name]

        return dataclasses.replace(cell, measure=measure)

    def forget(self) -> None:
        """Drop them."""
        self.path.unlink(missing_ok=True)
