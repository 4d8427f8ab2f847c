"""Which code records calls: that in C, if it was built, or that in Python.

``_native.c`` does what :meth:`Recorder.issue` does for the usual call. It is built when the package
is installed, if there is a C compiler (``tools/build_native.py``). The Python code is the reference;
it is used if the other is missing or switched off (``native=0``), and for every unusual call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from torch.autograd import graph as autograd_graph

from collectrace.signature import BASE, PRIME
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.groups import GroupState, Ordinals
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import Scope, ThreadState
from collectrace.tracer.record.streams import CallCounter, Stream
from collectrace.tracer.record.template import IGNORED, Template
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.tap import arguments

C: Final = "c"
PYTHON: Final = "python"


class Code(NamedTuple):
    """The code that records calls."""

    name: str
    """What it is written in, as in a header: ``c`` or ``python``."""
    install: Callable[[Recorder], None]
    """Has the calls of a recorder recorded by it."""


def chosen(*, wanted: bool) -> Code:
    """Return the code in C if it is wanted and was built for this Python, else that in Python."""
    return _C if wanted and _C is not None else _PYTHON


def _in_c() -> Code | None:
    try:
        from collectrace.tracer.record import _native
    except ImportError:
        return None
    # Attributes of these classes are read by their offsets, see the table in _native.c.
    _native.bind(
        BASE, PRIME,
        Recorder=Recorder, Writer=Writer, ThreadState=ThreadState, Scope=Scope,
        GroupState=GroupState, Ordinals=Ordinals, Template=Template, CallCounter=CallCounter,
        Stream=Stream, Node=sites._Node, Place=sites.Place,
        ArgumentReader=arguments.ArgumentReader, project_list=arguments._project_list,
        innermost=sites._innermost, find=sites.find, local=scopes.local, ignored=IGNORED,
        engine=autograd_graph._engine_run_backward.__code__,
    )  # fmt: skip

    def install(recorder: Recorder) -> None:
        recorder.issue = _native.Issuer(recorder)  # type: ignore[method-assign]

    return Code(C, install)


_PYTHON: Final = Code(PYTHON, lambda _: None)
_C: Final = _in_c()
