"""Wrappers that do nothing but push a scope: a public function, a framework's part, a backward.

Each takes the hooks of one installation and gives a wrapt wrapper; an installation that is over
(``live`` is false) only passes calls through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from torch.distributed import ReduceOp, Work

from collectrace import ops
from collectrace.tracer.guard import Wrapper
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.issue import Recorder
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.record.template import Issued
from collectrace.tracer.session import Session

Make = Callable[[Session], Wrapper]

_getframe = sys._getframe

_SUM: Final = ReduceOp.SUM
_MEMBER: Final = ReduceOp.RedOpType


def api(name: str) -> Callable[[Session], Callable[[Any], Any]]:
    """A public collective: its name, and when a synchronous one is complete."""
    position = ops.of(name).op_at

    def make(session: Session) -> Callable[[Any], Any]:
        def stand_in(wrapped: Any) -> Any:
            def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
                recorder = session.recorder
                state = local.state
                scope = state.scope
                if recorder is None:
                    return wrapped(*args, **kwargs)
                if position is not None:
                    op = args[position] if len(args) > position else kwargs.get("op", _SUM)
                    state.reduce_op = op if op.__class__ is _MEMBER else None
                if scope.api is not None:
                    return wrapped(*args, **kwargs)
                inside, frame = scope.children.get(name) or scope.inside_api(name), _getframe(1)
                # From here to the try no call, after which a signal handler could raise.
                caller = state.caller
                state.scope, state.caller, state.issued = inside, frame, None
                try:
                    result = wrapped(*args, **kwargs)
                except BaseException as problem:
                    if state.call is not None:
                        recorder.failed(state.call, problem)
                    raise
                finally:
                    state.scope, state.caller = scope, caller
                    state.reduce_op = None
                issued = state.call
                if issued is not None:
                    state.call = None
                    # Progress.complete, written out: a synchronous call is never an open one.
                    counter = issued[0].counter
                    if issued[1] > counter.done:
                        counter.done = issued[1]
                elif result is not None and state.issued is not None:
                    _hand(recorder, result, state.issued, args)
                return result

            return call

        return stand_in

    return make


def _hand(recorder: Recorder, result: Any, call: Issued, args: Any) -> None:
    """The user gets a Work."""
    try:
        if isinstance(result, Work):
            recorder.works.hand(result, call, args[0] if args else None)
    except Exception as problem:
        recorder.fail(problem, "following a Work")


def role(name: str) -> Make:
    """A method of a framework that issues collectives in this role, for its instance."""
    return role_of(lambda *_, **__: name)


def role_of(choose: Callable[..., str]) -> Make:
    """Like :func:`role`, the role chosen by the method's arguments."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            if session.recorder is None:
                return wrapped(*args, **kwargs)
            scope = local.state.scope.inside_role(choose(*args, **kwargs), instance)
            return scopes.within(scope, wrapped, args, kwargs)

        return wrapper

    return make


def around(what: str) -> Make:
    """A function that can take long: the heartbeat says that the thread is in it."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
            state = local.state
            scope = state.scope
            if session.recorder is None or scope.what == what:
                return wrapped(*args, **kwargs)
            inside, since, before = scope.inside_what(what), now(), state.since
            state.scope, state.since = inside, since
            try:
                return wrapped(*args, **kwargs)
            finally:
                state.scope, state.since = scope, before

        return wrapper

    return make


def backward(session: Session) -> Wrapper:
    """``backward()``: whose line it is, and when the buckets it issued are complete."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        state = local.state
        scope = state.scope
        # Tensor.backward calls autograd.backward, and a tensor subclass comes by twice.
        if recorder is None or scope.what == "backward":
            return wrapped(*args, **kwargs)
        place = sites.resolve(sites.find(sys._getframe(1)))
        inside, since, before = scope.inside_what("backward"), now(), state.since
        state.scope, state.since = inside, since
        try:
            scopes.backward.enter(*place)
            result = wrapped(*args, **kwargs)
        finally:
            state.scope, state.since = scope, before
            scopes.backward.leave()
        recorder.backward_over()
        return result

    return wrapper
