"""Modules of a sharded model: run, or part of the loss, on some ranks only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.kind_examples import steps, waits
from tests.support.synthetic import Rank, Run


def first(run: Run, folder: Path) -> Finding:
    return errors(aligned(run, folder))[0]


def gather(rank: Rank, layer: str, site: str) -> None:
    rank.call("all_gather_single", role="fsdp.unshard", part=layer, shape=[34], site=site)


def trained(
    *,
    skips: int | None = None,
    cuts: int | None = None,
    site: str = "/job/train.py:9",
    layers: str = "ab",
) -> Run:
    """Four steps of some layers; in the third a rank skips b, or cuts it out of the loss."""
    run = Run(3)
    for rank in run:
        for step in range(4):
            odd = step == 2
            for layer in layers:
                if not (odd and rank.rank == skips and layer == "b"):
                    gather(rank, layer, site)
            for layer in reversed(layers):
                if not (odd and rank.rank in (skips, cuts) and layer == "b"):
                    gather(rank, layer, "/job/train.py:21")
                    rank.call("reduce_scatter_single", role="fsdp.reduce_scatter", part=layer,
                              shape=[68], site="/job/train.py:21")  # fmt: skip
        rank.exit()
    return run


def test_a_module_that_was_left_out_is_named(tmp_path: Path) -> None:
    found = first(trained(skips=2), tmp_path)
    assert found.suspects == (2,)
    assert (
        "Ranks 0-1 gathered the parameters of b at train.py:9, and rank 2 did not: it left the "
        "module out." in found.cause
    )
    assert "set_reduce_scatter_unused_params() does not help" in found.fix


def test_a_module_that_was_run_and_left_out_of_the_loss(tmp_path: Path) -> None:
    found = first(trained(cuts=2), tmp_path)
    assert found.suspects == (2,)
    assert "gathered the parameters of b once more at train.py:21, for its backward" in found.cause
    assert "All ranks had run the module, but on rank 2 no gradients came back" in found.cause
    assert "times zero" in found.fix
    assert "set_reduce_scatter_unused_params" not in found.fix


def kept_by(
    holders: Sequence[int],
    *,
    again_at: str = "/job/train.py:21",
    forward_at: str = "/job/train.py:9",
) -> Run:
    """Some ranks keep what they gathered for the third forward: there all wait for ever."""
    run = Run(3)
    for rank in run:
        for step in range(3):
            for layer in "ab":
                gather(rank, layer, forward_at)
            for layer in "ba" if step < 2 else "b":
                is_held = step == 2 and rank.rank in holders
                if not is_held:
                    gather(rank, layer, again_at if step == 2 else "/job/train.py:21")
                if is_held or step < 2:
                    rank.call("reduce_scatter_single", role="fsdp.reduce_scatter", part=layer,
                              shape=[68], site="/job/train.py:21")  # fmt: skip
        rank.exit()
    return run


@pytest.mark.parametrize(("holders", "suspects"), [((2,), (2,)), ((0, 2), (1,))])
def test_parameters_that_some_ranks_keep_after_the_forward(
    holders: Sequence[int], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    found = first(kept_by(holders), tmp_path)
    assert found.suspects == suspects
    assert "All ranks had run b, and are in its backward at train.py:21" in found.cause
    assert "reshard_after_forward is not the same on all ranks" in found.cause
    assert "took no part in the loss" not in found.cause
    assert "one value on every rank" in found.fix
    assert "times zero" not in found.fix


@pytest.mark.parametrize(
    "sites",
    [{"again_at": "/job/train.py:12"}, {"forward_at": "/job/train.py:21"}],
    ids=["another line", "one line for forward and backward"],
)
def test_a_module_that_runs_again_is_not_taken_for_one_that_was_freed(
    sites: dict[str, str], tmp_path: Path
) -> None:
    found = first(kept_by((2,), **sites), tmp_path)
    assert "reshard_after_forward" not in found.cause + found.fix


def test_the_condition_around_the_line_that_all_modules_share(tmp_path: Path) -> None:
    script = tmp_path / "net.py"
    script.write_text(
        "for layer in layers:\n    if torch.rand(()) > dropped:\n        x = layer(x)\n"
    )
    found = first(trained(skips=2, site=f"{script}:3", layers="abc"), tmp_path / "run")
    assert "The line stands under `if torch.rand(()) > dropped:` (net.py:2)" in found.cause
    assert "draws a random number" in found.cause


def test_a_condition_that_looks_at_nothing_known_is_not_told(tmp_path: Path) -> None:
    script = tmp_path / "net.py"
    script.write_text("for layer in layers:\n    if layer.deep:\n        x = layer(x)\n")
    found = first(trained(skips=2, site=f"{script}:3", layers="abc"), tmp_path / "run")
    assert "stands under" not in found.cause


def fetching(role: str) -> Run:
    """ZeRO stage 3: one rank gathers again, where the others do something in this role."""
    run = steps(3)
    others: dict[str, Any] = {"role": role, "shape": [64], "site": "/job/train.py:21"}
    for rank in run:
        if rank.rank == 1:
            waits(rank, "all_gather_single", role="deepspeed.fetch", site="/job/net.py:5")
        else:
            waits(rank, "reduce_scatter_single", **others)
    return run


def test_zero_gathers_again_where_a_module_was_left_out(tmp_path: Path) -> None:
    found = first(fetching("deepspeed.reduce_gradients"), tmp_path)
    assert "Rank 1 left one out, or ran one more." in found.cause
    assert "set_z3_leaf_modules" in found.fix


def test_zero_beside_a_call_of_the_scripts_own_tells_no_module(tmp_path: Path) -> None:
    found = first(fetching("user"), tmp_path)
    assert "left one out" not in found.cause
