"""Fields that many rows of the completeness tables expect, of tensors of one length everywhere."""

from __future__ import annotations

from typing import Any, Final

Fields = dict[str, Any]

SUM: Final[Fields] = {"shape": [3], "reduce_op": "SUM"}
SINGLE: Final[Fields] = {"shape": [2], "out_shape": lambda v: [2 * v.size]}
SCATTER: Final[Fields] = {
    "shape": lambda v: [2 * v.size],
    "out_shape": [2],
    "reduce_op": "SUM",
}
SPLIT: Final[Fields] = {
    "shape": lambda v: [2 * v.size],
    "out_shape": lambda v: [2 * v.size],
    "splits": lambda v: [[2] * v.size] * 2,
}
COALESCED: Final[Fields] = {
    "shape": [[2], [3]],
    "out_shape": lambda v: [[2 * v.size], [3 * v.size]],
}
COALESCED_SCATTER: Final[Fields] = {
    "shape": lambda v: [[2 * v.size], [3 * v.size]],
    "out_shape": [[2], [3]],
    "reduce_op": "SUM",
}
