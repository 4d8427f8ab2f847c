"""Objects whose class runs code of its own for whatever is done with them, and counts that."""

from __future__ import annotations

import ctypes
import enum
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

HOOKS: Final = (
    "__repr__", "__str__", "__len__", "__eq__", "__ne__", "__hash__", "__bool__", "__iter__",
    "__contains__", "__getitem__", "__getattribute__", "__getattr__", "__dir__", "__format__",
    "__int__", "__float__", "__index__", "__call__", "__lt__", "__reduce_ex__", "__sizeof__",
    "__array__", "__torch_function__", "__get__", "__set__", "__length_hint__", "bit_length",
    "encode", "item", "keys", "get", "items",
)  # fmt: skip
PROPERTIES: Final = (
    "__class__", "__dict__", "_as_parameter_", "_name_", "_value_", "name", "shape", "dtype",
)  # fmt: skip
OF_METACLASSES: Final = (
    "__getattribute__", "__instancecheck__", "__subclasscheck__", "__hash__", "__eq__", "__repr__",
    "__len__", "__bool__", "__iter__", "__contains__", "__call__",
)  # fmt: skip
PROPERTIES_OF_METACLASSES: Final = ("__name__", "__mro__")
VALUES: Final = ((int, (7,)), (float, (1.5,)), (str, ("text",)), (bytes, (b"b",)), (tuple, ((1,),)),
                 (list, ()), (dict, ()), (set, ()), (BaseException, ()))  # fmt: skip
"""Built-in classes, and what instances of subclasses are made of."""

_set_dictionary: Final[Any] = ctypes.pythonapi.PyObject_GenericSetDict
_set_dictionary.argtypes = [ctypes.py_object, ctypes.py_object, ctypes.c_void_p]


class Text(str):
    """A string that is not exactly one."""

    __slots__ = ()


class Hostile:
    """Makes such objects: ``act`` is what their code does, once it has been counted."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.calls: list[str] = []
        """What has run."""
        self._act = act

    def objects(self) -> Iterator[tuple[str, Any]]:
        """Yield them, by name; each has, as far as it can, an attribute ``number``."""
        trap = self._class()
        yield "class", trap
        yield "object", self._with(object.__new__(trap), {"number": 3, "other": trap})
        for base, arguments in VALUES:
            made: Any = base.__new__(self._class(base), *arguments)
            yield f"subclass of {base.__name__}", self._with(made, {"number": 3})
        odd: dict[Any, Any] = dict.__new__(self._class(dict))
        yield "subclass of dict as __dict__", self._with(object.__new__(self._class()), odd)
        yield "key", self._with(object.__new__(self._class()), {self._key("number"): 3})
        yield "member of an enum", self._member()

    def _hook(self, name: str) -> Callable[..., Any]:
        def hook(*_: Any, **__: Any) -> Any:
            self.calls.append(name)
            return self._act()

        return hook

    def _class(self, *bases: type) -> type:
        of_meta: dict[str, Any] = {hook: self._hook(f"type.{hook}") for hook in OF_METACLASSES}
        of_meta |= {p: property(self._hook(f"type.{p}")) for p in PROPERTIES_OF_METACLASSES}
        meta = type("Meta", (type,), of_meta)
        members: dict[str, Any] = {hook: self._hook(hook) for hook in HOOKS}
        members |= {p: property(self._hook(p)) for p in PROPERTIES}
        made = type.__call__(meta, "Trap", bases, members)
        type.__dict__["__name__"].__set__(made, Text("Trap"))
        return made  # type: ignore[no-any-return]

    @staticmethod
    def _with(x: Any, attributes: dict[Any, Any]) -> Any:
        # Not `x.__dict__`: that is a property of its class.
        _set_dictionary(ctypes.py_object(x), ctypes.py_object(attributes), None)
        return x

    def _key(self, name: str) -> Any:
        """Something that a look-up of ``name`` is compared with."""
        members = {"__hash__": lambda _: hash(name), "__eq__": self._hook("key.__eq__")}
        return type("Key", (), members)()

    def _member(self) -> Any:
        class Base:
            __class__ = property(self._hook("enum.__class__"))
            __dict__ = property(self._hook("enum.__dict__"))

        class Phase(Base, enum.Enum):
            TRAIN = 1

        member = Phase.TRAIN
        for hook in ("__repr__", "__str__", "__hash__", "__eq__", "__getattribute__", "__len__"):
            type.__setattr__(Phase, hook, self._hook(f"enum.{hook}"))
        for name in ("name", "value"):
            type.__setattr__(Phase, name, property(self._hook(f"enum.{name}")))
        return member


def blocks() -> None:
    """Wait for ever."""
    threading.Event().wait()


def raises() -> None:
    """Raise what no ``except Exception`` catches."""
    raise SystemExit("code of the program was run")


def nothing() -> None:
    """Do nothing, and return what no caller expects."""
