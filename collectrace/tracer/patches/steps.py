"""Count the steps of a job without DDP forwards: by optimizer steps, or as the script says.

The hook is torch's hook for all optimizers (torch/optim/optimizer.py, torch 2.13). A compiled
graph does not call it, so its steps are not counted.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any, Final

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from collectrace.records import OPTIMIZER_STEP, STEP
from collectrace.tracer import dynamo
from collectrace.tracer.guard import contained
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.session import Session
from collectrace.tracer.tap.wire import Undo
from collectrace.tracer.user_objects import ByObject

_AROUND: Final = Optimizer.profile_hook_step(Optimizer.step).__code__
"""The code of torch's wrapper around the ``step()`` of each optimizer; it calls the hooks."""


def install(session: Session) -> Undo:
    """Count the steps of optimizers from now on; return the undo."""
    counted = _Counted()

    def stepped(optimizer: Optimizer, *_: Any) -> None:
        recorder = session.recorder
        if recorder is not None:
            with contained(recorder.count_beside, "counting a step"):
                counted.step(recorder, optimizer, sys._getframe(1))

    dynamo.see_through(stepped, _nothing)
    return register_optimizer_step_post_hook(stepped).remove


def step(session: Session) -> None:
    """Count a step that the script has begun, see :func:`collectrace.step`."""
    recorder = session.recorder
    if recorder is None:
        return
    with contained(recorder.count_beside, "counting a step"):
        if not recorder.book.is_other_rank() and recorder.counts(STEP):
            recorder.iteration += 1


def _nothing(*_: Any) -> None:
    """Do nothing. Dynamo compiles this instead of the hook."""


class _Counted:
    """The steps of each optimizer of a run."""

    def __init__(self) -> None:
        self._run: weakref.ref[Recorder] | None = None
        self._steps = ByObject[int]()

    def step(self, recorder: Recorder, optimizer: Optimizer, frame: FrameType) -> None:
        """Count a step of an optimizer, in a frame of ``_AROUND``.

        If there are several optimizers, the one with the most steps counts: an iteration in which
        each makes one step is one step. A step inside another optimizer's step does not count.
        """
        if recorder.book.is_other_rank() or _is_inside_another(frame.f_back):
            return
        if self._run is None or self._run() is not recorder:
            self._run = weakref.ref(recorder)
            self._steps.clear()
        if recorder.counts(OPTIMIZER_STEP):
            self._steps[optimizer] = made = (self._steps.get(optimizer) or 0) + 1
            recorder.iteration = max(recorder.iteration, made + 1)


def _is_inside_another(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _AROUND:
            return True
        frame = frame.f_back
    return False
