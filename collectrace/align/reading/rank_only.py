"""Decorators that run a function on one rank, or one of each host, and do nothing on the others.

They are recognised by the names in frameworks. Each acts like a condition on the rank around the
function.
"""

from __future__ import annotations

import ast
import re
from typing import Final

_NAMES: Final = (
    (r"rank_zero_(only|experiment)", "Lightning, lightning_utilities, NeMo"),
    (
        r"on_(local_)?(main|last)_process|on_(local_)?process",
        "Accelerate: Accelerator, PartialState",
    ),
    (r"(local_)?main_process_only", "SpeechBrain, and projects that write their own"),
    (r"(local_)?master_only", "mmengine, and projects that write their own"),
    (r"one_rank_only", "Ignite"),
)
"""Patterns of whole names, and who uses them."""

_DECORATOR: Final = re.compile(rf"@(?:\S+\.)?(?:{'|'.join(name for name, _ in _NAMES)})\b")


def is_one(text: str) -> bool:
    """Return whether the text of a line is such a decorator."""
    return _DECORATOR.match(text.strip()) is not None


def lines_of(node: ast.AST) -> list[int]:
    """Return the lines of such decorators of a function."""
    decorators = getattr(node, "decorator_list", [])
    return [one.lineno for one in decorators if is_one(f"@{ast.unparse(one)}")]
