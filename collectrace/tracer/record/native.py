"""Choose the code that records calls: C if it was built, otherwise Python.

``_native.c`` does what :meth:`Recorder.issue` does for the usual call. It is built when the package
is installed, if there is a C compiler (``tools/build_native.py``). The Python code is the
reference. It is used if the other is missing or switched off (``native=0``), and for every unusual
call. With the code in C, the kernels are those in C++ if these were built (``tap/compiled``).
"""

from __future__ import annotations

import _thread
from typing import Any, Final

import torch
from torch.autograd import graph as autograd_graph
from torch.distributed import GroupMember

from collectrace.signature import BASE, PRIME
from collectrace.tracer.record import owners, scopes, sites
from collectrace.tracer.record.groups import GroupState, Ordinals
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import Scope, ThreadState
from collectrace.tracer.record.streams import CallCounter, Stream
from collectrace.tracer.record.template import IGNORED, Template
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.tap import arguments


class HasRecorder:
    """The owner of the recorder of the current run."""

    __slots__ = ("__dict__", "__weakref__", "recorder")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        """None: there is no run."""


class Python:
    """The code in Python."""

    name = "python"
    """Its name in a header."""
    is_native = False
    """Whether the kernels are compiled, too, if they were built, see ``tap/compiled``."""

    def install(self, recorder: Recorder) -> None:
        """Let this code record the calls of a recorder."""

    def public(self, in_python: Any, position: int | None, *_: Any) -> Any:  # noqa: ARG002
        """Return the replacement of a public function, see ``patches/scoping``."""
        return in_python


class C(Python):
    """The code in C."""

    name, is_native = "c", True

    def __init__(self) -> None:
        from collectrace.tracer.record import _native

        if not issubclass(type(scopes.local), _thread._local):
            raise TypeError("gevent's local: a thread has more than one state")
        self._native = _native
        # Attributes of these classes are read by their offsets, see the table in _native.c.
        _native.bind(
            BASE, PRIME, HasRecorder=HasRecorder,
            Recorder=Recorder, Writer=Writer, ThreadState=ThreadState, Scope=Scope,
            GroupState=GroupState, Ordinals=Ordinals, Template=Template, CallCounter=CallCounter,
            Stream=Stream, Node=sites._Node, Place=sites.Place,
            ArgumentReader=arguments.ArgumentReader, project_list=arguments._project_list,
            innermost=sites._innermost, torch_codes=owners.torch_codes, find=sites.find,
            local=scopes.local, ignored=IGNORED,
            engine=autograd_graph._engine_run_backward.__code__, Tensor=torch.Tensor,
            Parameter=torch.nn.Parameter, dtype=torch.Tensor.dtype, shape=torch.Tensor.shape,
            device=torch.Tensor.device, nobody=GroupMember.NON_GROUP_MEMBER,
            itself=arguments.itself,
        )  # fmt: skip

    def install(self, recorder: Recorder) -> None:
        """Let this code record the calls of a recorder."""
        lock = recorder.lock
        issuer: Any = self._native.Issuer(
            0, recorder, recorder.issue, recorder.followed, recorder.book.states, recorder.writer,
            lock.acquire, lock.release,
        )  # fmt: skip
        recorder.issue, recorder.followed = issuer, issuer.followed  # type: ignore[method-assign]

    def public(self, in_python: Any, position: int | None, *parts: Any) -> Any:
        """Return the replacement of a public function, see ``patches/scoping``."""
        at = -1 if position is None else position
        return self._native.Public(at, *parts, in_python.__code__)


def chosen(*, wanted: bool) -> Python:
    """Return the C code if it is wanted and was built for this Python; otherwise Python's."""
    return _c if wanted and _c is not None else _python


def _built() -> C | None:
    try:
        return C()
    except (ImportError, TypeError, ValueError):  # it was not built, or from another version
        return None


_python: Final = Python()
_c: Final = _built()
