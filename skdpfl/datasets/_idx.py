"""The idx format of MNIST: two zero bytes, a type, the number of axes, big-endian lengths, data."""

import numpy as np

_UNSIGNED_BYTE = 8


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """Give the array of unsigned bytes in an unpacked idx file."""
    kind = content[:3]
    if len(content) < 4 or kind != bytes([0, 0, _UNSIGNED_BYTE]):
        raise OSError(f"{name} is not an idx file of unsigned bytes: it starts with {kind!r}")
    n_axes = content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise OSError(f"{name} is damaged: {len(content)} bytes")
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(np.int64)
    if len(content) - start != np.prod(shape):
        raise OSError(f"{name} is damaged: {len(content) - start} values for shape {shape}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
