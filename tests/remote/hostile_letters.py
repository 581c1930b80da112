"""A silo under hostile letters, in a process with little memory; a test runs this as a script.

    python -m tests.remote.hostile_letters FOLDER SEED COUNT

prints a JSON object: of each letter its name, its bytes, the seconds and MB that it took, and what
the silo answered. The process may use 64 MB more than it does before the first one.
"""

import dataclasses
import json
import resource
import struct
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from skdpfl.models import MLP
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.sampling import Everyone, PoissonSampling, WithoutReplacement
from skdpfl.remote import Gate, SiloRecords, pack, unpack
from tests.remote.silos_here import Here, estimator, fit_elsewhere, problem

MB = 2**20
ROOM = 64 * MB
#: what numbers are replaced by
EXTREME = [
    0, 1, -1, 2**31, 10**9, 10**12, 2**63, 10**18, 10**30, -(10**18), 0.5, 1e-300, 5e-324, 1e-9,
    1e308, True, None, "a", "", [], [0], {"f": "nan"}, {"f": "inf"}, {"d": {}}, [1] * 100,
]  # fmt: skip


def message(header, arrays=b""):
    """Return a message by its header, as a server of its own code writes it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<7sBI", b"skdpflw", 1, len(text)) + text + arrays


def parts(data):
    """Return a message's header and its arrays."""
    (length,) = struct.unpack_from("<I", data, 8)
    return json.loads(data[12 : 12 + length]), data[12 + length :]


def with_field(data, *path, value):
    """Return a message with another value in one place of its header."""
    header, arrays = parts(data)
    at = header
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return message(header, arrays)


def places(node, path=()):
    """Yield the path of each value in a header."""
    yield path
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from places(node[key], (*path, key))


def plain_rows(offer):
    """Yield offers whose plans take long to price, by name."""
    bare = dataclasses.replace(unpack(offer).row, sums=())

    def offered(steps, noise_multiplier, schedule=None, sampling=bare.plan.sampling):
        z = np.full(1, noise_multiplier)
        plan = dataclasses.replace(
            bare.plan, noise_schedule=schedule, sampling=sampling, noise_multiplier=z
        )
        row = dataclasses.replace(bare, plan=plan)
        data = pack(dataclasses.replace(unpack(offer), row=row))
        return with_field(data, "v", "row", "v", "plan", "v", "steps", value=steps)

    for count in (5_000_000, 200_000, 50_000):
        yield f"{count:,} rounds", offered([1] * count, 1e4)
    yield "a round of 10^12 steps", offered([10**12, 1], 1e4)
    for z in (1e-9, 1e4):
        for schedule in (None, ("step", 0.99999, 3)):
            for sampling in (Everyone(), PoissonSampling(0.01), WithoutReplacement(0.3)):
                name = f"{sampling}, {schedule}, z={z:g}"
                yield name, offered([10] * 50_000, z, schedule, sampling)


def small_ones(offer, ask):
    """Yield letters of few bytes that ask for much, by name."""
    text = ["x" * 260_000, *[""] * 4500]
    yield "text of one long word", message({"t": text, "s": [len(text)]})
    yield "text of any shape", message({"t": [""], "s": [0, 2**62]})
    yield from plain_rows(offer)
    sums = parts(offer)[0]["v"]["row"]["v"]["sums"]
    yield ("many releases", with_field(offer, "v", "row", "v", "sums", value=sums * 5000))
    facts, words = ("v", "facts", "v"), [str(i) for i in range(10**5)]
    yield "a long class", with_field(offer, *facts, "classes", value=["x" * 10**6, *words])
    yield "many classes", with_field(offer, *facts, "classes", value=list(range(10**5)))
    yield "many features", with_field(offer, *facts, "n_features", value=10**12)
    yield ("names of many features", with_field(offer, *facts, "feature_names", value=words))
    yield "a long name", with_field(offer, "v", "fit", value="x" * 10**6)
    huge = pack(MLP((2,)).build(4, 1))
    for hidden in ([2**40], [2**20] * 3, [1] * 10**5):
        model, arrays = parts(with_field(huge, "v", "hidden", value=hidden))
        if not arrays:
            name = f"a network of {len(hidden)}"
            yield name, with_field(offer, "v", "task", "v", "model", value=model)
    yield "another fit", with_field(ask, "v", "fit", value="other")


def long_ones():
    """Yield letters of many bytes that are none, by name."""
    many = 60 * 10**6
    yield "header of 60 MB", lambda: message(b"[" + b"1," * (many // 2) + b"1]")
    yield "header of lists", lambda: message(b"[" + b"[]," * 1_300_000 + b"0]")
    yield "header of mappings", lambda: message(b"[" + b'{"d":{}},' * 450_000 + b"0]")
    yield "as many mappings as are read", lambda: message(b"[" + b'{"d":{}},' * 52_000 + b"0]")
    yield "as many lists as are read", lambda: message(b"[" + b"[]," * 131_000 + b"0]")
    yield "numbers as they are read", lambda: message(b"[" + b"0.1," * 262_000 + b"0]")
    yield "deep", lambda: message(b"[" * 200_000 + b"]" * 200_000)
    yield "a long number", lambda: message(b"9" * 4_000_000)
    yield "one long text", lambda: message(('"' + "\U0001f600" * 1_000_000 + '"').encode())
    empty = b'{"a":"<f8","s":[0]},'
    yield "arrays of nothing", lambda: message(b"[" + empty * 40_000 + b"0]")
    yield "arrays of nothing, large", lambda: message({"a": "<f8", "s": [0, 2**62, 2**62]})
    yield "an array that is not there", lambda: message({"a": "<f8", "s": [2**40]})


class Silo:
    """A silo that a hostile server speaks to."""

    def __init__(self, folder):
        X, y, silos = problem()
        records = SiloRecords("north", X[silos == 1], y[silos == 1], classes=[0, 1])
        self.gate = Gate(records, PrivacyLedger(1e9, 1e-3, path=folder / "north.ledger"))
        self.took = []

    def tell(self, name, data):
        before, begin = memory("VmSize"), time.process_time()
        answer = unpack(self.gate.answer(data))
        seconds = time.process_time() - begin
        said = getattr(answer, "reason", type(answer).__name__).rstrip()
        grown = (memory("VmSize") - before) / MB
        self.took.append((name, len(data), round(seconds, 3), round(grown, 1), said))


def memory(name, process="self"):
    """Return a number of a process's memory, in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def letters_of_a_fit(folder):
    """Return what one silo is told in a fit: the offer, and the first question."""
    here = Here(folder, problem())
    fit = estimator(n_rounds=2, feature_bounds=(-4, 4), random_state=None, sampling_rate=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_elsewhere(fit, here)
    assert isinstance(unpack(here.letters[0][1]).row.plan.sampling, PoissonSampling)
    return [letter for name, letter in here.letters if name == "north"]


def fuzzed(silo, letters, rng, count):
    """Tell a silo the beginning of a fit, and then a letter with an extreme value somewhere."""
    for number in range(count):
        mine = [with_field(data, "v", "fit", value=str(number)) for data in letters]
        which = int(rng.integers(len(mine)))
        for data in mine[:which]:
            silo.gate.answer(data)
        header, _ = parts(mine[which])
        found = [path for path in places(header) if path]
        path = found[rng.integers(len(found))]
        value = EXTREME[rng.integers(len(EXTREME))]
        name = f"{number}: {which} {'.'.join(map(str, path))} = {value!r:.20}"
        silo.tell(name, with_field(mine[which], *path, value=value))


def main(folder, seed, count):
    folder = Path(folder)
    (folder / "fit").mkdir()
    letters = letters_of_a_fit(folder / "fit")
    silo = Silo(folder)
    for data in letters:
        silo.tell("as it should be", data)
    silo.took.clear()
    said = dict(small_ones(letters[0], letters[1]))
    for name, data in said.items():
        if b'"fit"' in data and len(parts(data)[0]["v"]["fit"]) < 100:
            said[name] = with_field(data, "v", "fit", value=f"hostile: {name}")
    said |= {name: make() for name, make in long_ones()}
    for value in EXTREME:
        end = {"fit": unpack(letters[0]).fit, "rounds": value}
        said[f"the end after {value!r:.20}"] = message({"o": "remote.End", "v": end})
    limit = memory("VmSize") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name, data in said.items():
        silo.tell(name, data)
    fuzzed(silo, letters, np.random.default_rng(int(seed)), int(count))
    print(json.dumps(silo.took))


if __name__ == "__main__":
    main(*sys.argv[1:])
