"""Write numbers of numpy's scalar types, if the program has imported numpy."""

from __future__ import annotations

import sys
from types import MethodDescriptorType, ModuleType
from typing import Any, Final

from collectrace.tracer.values.plain import Row, Written, name_of, typed_number

_NAMES: Final = (
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip


def rows() -> dict[int, Row]:
    """Return the rows of numpy's scalar types, by the type's ``id``; empty without numpy."""
    numpy = sys.modules.get("numpy")
    if type(numpy) is not ModuleType:
        return {}
    names: dict[str, Any] = vars(numpy)
    generic = names.get("generic")
    item = vars(generic).get("item") if type(generic) is type else None
    if type(item) is not MethodDescriptorType:  # it is not numpy's method
        return {}

    def row(x: Any) -> Written:
        return typed_number(name_of(x), item(x))

    kinds = (names.get(name) for name in _NAMES)
    return {id(kind): row for kind in kinds if type(kind) is type and generic in kind.__mro__}
