"""The callbacks for findings of a running job, see ``collectrace.on_finding``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Listener = Callable[[dict[str, Any]], object]

listeners: Final[list[Listener]] = []
"""In the order of their registration."""
