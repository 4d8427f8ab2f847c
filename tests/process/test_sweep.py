"""An exception at any step of the tracer: training goes on, and nobody is blamed for it."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist

from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import ROOT, local
from collectrace.tracer.switch import current
from tests.support import sweep
from tests.support.real_ranks import Ranks
from tests.support.striking import C_CALL, C_RETURN, CALL, ERRORS, RETURN, seen, struck


def swept(ranks: Ranks, folder: Path, kind: str, event: str, error: str, count: int) -> None:
    """Strike so many steps of such a run; 0: all."""
    found = sweep.steps(ranks, folder, kind, event)
    assert len(found) > 50
    chosen = sweep.sample(found, count or len(found), len(error))
    struck = list(sweep.sweep(ranks, folder, kind, chosen, error))
    assert len(struck) == len(chosen)
    assert [(str(one.step), one.problems) for one in struck if one.problems] == []
    assert sum(one.was_reached for one in struck) > len(struck) * 0.7


def test_some_functions_fail(ranks: Ranks, tmp_path: Path) -> None:
    swept(ranks, tmp_path, "plain", CALL, "RuntimeError", 12)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", sweep.KINDS)
@pytest.mark.parametrize(
    ("event", "error"),
    [(CALL, "RuntimeError"), (RETURN, "OSError"), (C_CALL, "MemoryError"), (C_CALL, "OSError")],
)
def test_every_step_fails(kind: str, event: str, error: str, ranks: Ranks, tmp_path: Path) -> None:
    swept(ranks, tmp_path, kind, event, error, 0)


# -- Ctrl-C -------------------------------------------------------------------------------------


def _is_free(recorder: Recorder) -> bool:
    is_free = recorder.lock.acquire(timeout=5)
    if is_free:
        recorder.lock.release()
    return is_free


NOWHERE: Final = {
    ("tracer/record/works.py", "_gone"),  # Python calls it, and takes what it raises
    ("tracer/user_text.py", "<lambda>"),  # what raises there by `raise` is an object's own code
}


def interrupted() -> dict[str, Any]:
    """What becomes of a Ctrl-C at each step that the main thread takes in the tracer."""
    weight = torch.ones(2, requires_grad=True)  # no DDP: a broken backward breaks it, untraced too

    def act() -> None:
        x = torch.ones(2)
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        work.wait()
        torch.autograd.backward((x * weight).sum())
        with contextlib.suppress(ValueError, RuntimeError):
            dist.broadcast(x, 7)
        objects: list[Any] = [None]
        dist.all_gather_object(objects, 1)

    for _ in range(3):
        act()
    with seen() as found:
        act()
    session = current()
    assert session is not None
    recorder = session.recorder
    assert recorder is not None
    lost, stuck, count = [], [], 0
    steps = [one for one in list(found) if one.is_main and one.event in (CALL, C_RETURN)]
    for step in [one for one in steps if (one.file, one.function) not in NOWHERE]:
        arrived = False
        with struck(step, 1, ERRORS["KeyboardInterrupt"]) as strike:
            try:
                act()
            except KeyboardInterrupt:
                arrived = True
        count += strike.has_struck
        if strike.has_struck and not arrived:
            lost.append(str(step))
        if local.state.scope is not ROOT:
            stuck.append(f"scope after {step}")
            local.state.scope = ROOT
        with ThreadPoolExecutor(1) as other:
            if not other.submit(_is_free, recorder).result():
                stuck.append(f"lock after {step}")
                break
    return {"lost": lost, "stuck": stuck, "count": count, "failures": recorder.failures}


def test_ctrl_c_arrives_from_any_step(ranks: Ranks) -> None:
    ran = ranks.run(interrupted, 1, env={"COLLECTRACE_STALL_AFTER": "600"}, fails=None, limit=200)
    found = ran.result()
    assert found["count"] > 100
    assert (found["lost"], found["stuck"], found["failures"]) == ([], [], 0)
