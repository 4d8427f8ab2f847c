"""Frameworks around torch: the same bits with and without tracing, and each call has their role.

`tools/test --frameworks` runs these, in an environment that has the frameworks.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from collectrace.align import align
from tests.frameworks import launching
from tests.support import rank_file_checks

LIMIT = 170.0
KILLS = frozenset({"ray"})
"""Frameworks that kill their workers at the end, which then write no last line."""


def losses(folder: Path, program: str, *arguments: str) -> list[str]:
    """What both ranks of a program told, as its user starts it."""
    path = launching.PROGRAMS / f"{program}.py"
    with launching.started(
        path, folder, *arguments, env={"COLLECTRACE_STALL_AFTER": "60"}
    ) as process:
        process.wait(LIMIT)
    printed = launching.output(folder)
    assert process.returncode == 0, printed
    assert launching.complaints(printed) == []
    return sorted(line[line.index("LOSS") :] for line in printed.splitlines() if "LOSS" in line)


@pytest.mark.timeout(2 * LIMIT + 20)
@pytest.mark.parametrize(
    ("package", "program", "arguments", "roles"),
    [
        ("lightning", "lightning_fit", (), {
            "lightning.log", "lightning.barrier", "lightning.broadcast", "lightning.all_gather",
            "lightning.checkpoint", "lightning.early_stopping", "lightning.loader_check",
            "lightning.sigterm", "ddp.backward.bucket",
        }),
        ("accelerate", "accelerate_loop", (), {
            "accelerate.gather", "accelerate.gather_for_metrics", "accelerate.reduce",
            "accelerate.pad", "accelerate.wait_for_everyone", "accelerate.check_trigger",
            "accelerate.random_state", "ddp.backward.bucket",
        }),
        ("transformers", "trainer_fit", (), {
            "trainer.gather", "trainer.num_items", "trainer.flops", "trainer.checkpoint",
            "ddp.backward.bucket",
        }),
        ("torchmetrics", "metrics", (), {"torchmetrics.sync"}),
        ("deepspeed", "deepspeed_zero", ("2",), {
            "deepspeed.broadcast_model", "deepspeed.reduce_gradients", "deepspeed.step",
            "deepspeed.checkpoint",
        }),
        ("deepspeed", "deepspeed_zero", ("3",), {
            "deepspeed.construct", "deepspeed.fetch", "deepspeed.trace_check",
            "deepspeed.reduce_gradients", "deepspeed.step", "deepspeed.checkpoint",
        }),
        ("ray", "ray_train", (), {"ddp.construct", "ddp.backward.bucket"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_training(
    package: str, program: str, arguments: tuple[str, ...], roles: set[str], tmp_path: Path
) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    bare = losses(tmp_path / "bare", program, *arguments)
    assert bare
    assert losses(tmp_path / "traced", program, *arguments, "--traced") == bare

    logs = tmp_path / "traced" / "logs"
    alignment = align(logs)
    assert alignment.status == "aligned"
    assert {finding.severity for finding in alignment.findings} <= {"info"}
    for file in rank_file_checks.read_run(logs, 2):
        if package in KILLS:
            rank_file_checks.check_chain(file)
            rank_file_checks.check_stacks(file)
        else:
            rank_file_checks.check_whole(file, 2)
        found = Counter(call.role for call in file.calls)
        assert roles <= found.keys()
        assert "user" not in found
        assert all(call.site for call in file.calls)
