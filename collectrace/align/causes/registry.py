"""The one table of causes, and the order in which they are tried."""

from __future__ import annotations

import graphlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final, Literal

from collectrace.align.causes.situation import NEEDS, Need, Situation
from collectrace.align.causes.words import Words
from collectrace.findings import KINDS, MISMATCHES, Kind

Status = Literal["stable", "preview", "retired"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table of causes."""

    code: str
    """``CT102``. Codes never change their meaning, and are never used again."""

    name: str
    """``skipped-by-condition``. The module is ``ct102_skipped_by_condition``."""

    summary: str
    """One sentence."""

    kinds: frozenset[Kind]
    """The kinds of finding that it can explain."""

    needs: tuple[Need, ...] = ()
    """Facts without which it is not tried: see ``situation.NEEDS``."""

    yields_to: tuple[str, ...] = ()
    """Codes that are more specific and win if both apply; ``CT2`` stands for all that begin so."""

    example: str = ""
    """A script of ``tests/zoo`` in which it wins."""

    counter_example: str = ""
    """A script of ``tests/zoo`` that looks alike and in which it must not apply."""

    since: str = "0.1.0"
    """The version that had it first."""

    status: Status = "stable"

    reason: str = ""
    """Why it was retired, and in which version."""

    @property
    def module(self) -> str:
        """Name of the module that finds it and words it."""
        return f"{self.code.lower()}_{self.name.replace('-', '_')}"

    def load(self) -> ModuleType:
        """Return its module."""
        return importlib.import_module(f"collectrace.align.causes.{self.module}")

    def find(self, situation: Situation) -> Any:
        """Return what the module finds, None if the cause does not apply."""
        if situation.kind not in self.kinds:
            return None
        if not all(NEEDS[need](situation) for need in self.needs):
            return None
        find: Callable[[Situation], Any] = self.load().find
        return find(situation)

    def words(self, situation: Situation, found: Any) -> Words:
        """Return its words for what it found."""
        words: Callable[[Situation, Any], Words] = self.load().words
        return words(situation, found)


ROWS: Final[frozenset[Kind]] = MISMATCHES - {"lost_mismatch"}
"""Kinds of a call of a stream at which ranks made different calls."""

MESSAGES: Final[frozenset[Kind]] = frozenset({"p2p_unmatched", "p2p_mismatch"})

ALL: Final[frozenset[Kind]] = frozenset(KINDS)


def _kinds(*kinds: Kind) -> frozenset[Kind]:
    return frozenset(kinds)


CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT101", "rank-condition",
        "A condition on the rank let only some ranks make a call.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104", "CT2", "CT5", "CT8"),
        example="matching/missing", counter_example="healthy/leader_and_followers",
    ),
    Cause(
        "CT102", "decided-by-data",
        "A condition that can differ between ranks decided which calls they made.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT101", "CT104", "CT107", "CT2", "CT5", "CT8"),
    ),
    Cause(
        "CT103", "loop-length",
        "A loop had more iterations on some ranks than on others.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104", "CT2", "CT5", "CT8"),
    ),
    Cause(
        "CT104", "handled-exception",
        "Some ranks handled an exception that the others did not have.",
        ROWS | _kinds("missing_call"), ("root",),
        yields_to=(
            "CT2", "CT501", "CT504", "CT506", "CT509", "CT510", "CT512", "CT801", "CT802",
        ),
    ),
    Cause(
        "CT105", "other-function",
        "One line called different functions on different ranks.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104", "CT107", "CT2", "CT5", "CT8"),
    ),
    Cause(
        "CT106", "other-value",
        "One line computed different values, and the calls after it differ.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT104", "CT107", "CT2", "CT5", "CT8"),
    ),
    Cause(
        "CT107", "iteration-order",
        "A loop gave the ranks other items, or the same items in another order.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT2", "CT5", "CT8"),
    ),
    Cause(
        "CT201", "join-own-call",
        "The script made a call of its own inside join(), which does not answer it.",
        ROWS, ("root", "join"), yields_to=("CT206",),
        example="join/barrier_inside", counter_example="join/zero_left_out",
    ),
    Cause(
        "CT202", "join-unanswered",
        "A model or an optimizer made a call that join() does not answer.",
        ROWS, ("root", "join"),
        example="join/one_model_of_two", counter_example="join/two_models",
    ),
    Cause(
        "CT203", "join-on-some-ranks",
        "Some ranks ran a DDP model inside join(), and others outside of it.",
        ROWS, ("root", "ddp"),
        example="join/enabled_on_one_rank", counter_example="join/barrier_inside",
    ),
    Cause(
        "CT204", "uneven-inputs",
        "Some ranks had fewer batches than others, and nothing takes care of that.",
        ROWS | _kinds("missing_call"), ("root",), yields_to=("CT201", "CT202", "CT203", "CT205"),
        example="join/inputs_uneven", counter_example="ddp/stops_early_and_ends",
    ),
    Cause(
        "CT205", "join-around-loops",
        "A join() is around several loops: a rank that has left one is still inside.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=("CT201",),
        example="join/join_around_the_epochs", counter_example="join/inputs_uneven",
    ),
    Cause(
        "CT206", "own-join-hook",
        "A join hook of the script's own made another call than what it is to answer.",
        ROWS, ("root", "join"),
        example="join/own_joinable", counter_example="join/barrier_inside",
    ),
    Cause(
        "CT501", "models-differ",
        "The models that ranks gave to DDP differ.",
        ROWS | _kinds("missing_call"), ("root", "ddp"),
        example="ddp/model_sizes_differ",
    ),
    Cause(
        "CT502", "ddp-settings-differ",
        "DDP was constructed with other arguments, or has another communication hook.",
        ROWS, ("root", "ddp"), yields_to=("CT506", "CT508"),
        example="ddp/find_unused_on_one_rank", counter_example="ddp/head_left_out_of_the_loss",
    ),
    Cause(
        "CT503", "forward-on-some-ranks",
        "Only some ranks ran a forward of a wrapped model.",
        ROWS | _kinds("missing_call"), ("root", "suspects"),
        yields_to=("CT2", "CT501", "CT506", "CT510", "CT512", "CT508"),
        example="ddp/evaluation_after_training", counter_example="ddp/two_models_swapped",
    ),
    Cause(
        "CT504", "no-sync-boundaries",
        "no_sync() was entered for other micro-batches on some ranks.",
        ROWS | _kinds("missing_call"), ("root", "suspects"),
        example="ddp/no_sync_boundaries", counter_example="ddp/accumulating_step_skipped",
    ),
    Cause(
        "CT505", "unused-parameters",
        "Parameters took no part in the loss on some ranks.",
        ROWS | _kinds("missing_call"), ("root", "ddp"), yields_to=("CT204", "CT502", "CT508"),
        example="ddp/head_left_out_of_the_loss", counter_example="ddp/last_step_skipped",
    ),
    Cause(
        "CT506", "other-model",
        "Ranks used several DDP models in another order, or each another one.",
        ROWS, ("root", "ddp"),
        example="ddp/two_models_swapped", counter_example="ddp/critic_held_back",
    ),
    Cause(
        "CT507", "call-among-frameworks",
        "Only some ranks made a call that stands among those of a framework.",
        ROWS | _kinds("missing_call"), ("root", "decisions", "suspects"),
        yields_to=("CT104", "CT2", "CT504", "CT505", "CT508", "CT510", "CT801", "CT802"),
        example="ddp/call_between_forward_and_backward",
        counter_example="ddp/skipped_step",
    ),
    Cause(
        "CT508", "backward-skipped",
        "A rank skipped a whole iteration: it ran no backward() where the others did.",
        ROWS | _kinds("missing_call"), ("root", "suspects"), yields_to=("CT104", "CT204", "CT504"),
        example="ddp/skipped_step", counter_example="ddp/no_sync_boundaries",
    ),
    Cause(
        "CT509", "cut-out-of-the-graph",
        "The backward of an autograd function did not run on some ranks.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        example="ddp/regulariser_cut_out_of_the_graph",
        counter_example="ddp/head_left_out_of_the_loss",
    ),
    Cause(
        "CT510", "recomputed",
        "A forward ran again within backward() on some ranks only.",
        ROWS | _kinds("missing_call"), ("root",),
        example="sharded/recomputed_on_one_rank", counter_example="sharded/block_run_by_itself",
    ),
    Cause(
        "CT511", "module-left-out",
        "Some ranks left out a module of a sharded model.",
        ROWS | _kinds("missing_call"), ("root",),
        yields_to=("CT104", "CT204", "CT510", "CT512"),
        example="sharded/layer_dropped_at_random", counter_example="sharded/widths_differ",
    ),
    Cause(
        "CT512", "resharding-differs",
        "A sharded module kept its parameters after the forward on some ranks only.",
        ROWS, ("root",),
        example="sharded/kept_gathered_where_there_is_room",
        counter_example="sharded/module_cut_out_of_the_loss",
    ),
    Cause(
        "CT513", "framework-arguments",
        "A framework made the same call on all ranks, with other sizes, types or roots.",
        _kinds("shape_mismatch", "dtype_mismatch", "split_mismatch", "root_mismatch"), ("root",),
        yields_to=("CT104", "CT2", "CT501", "CT502", "CT506", "CT508"),
        example="sharded/widths_differ", counter_example="ddp/bucket_caps_differ",
    ),
    Cause(
        "CT514", "wrapped-on-some-ranks",
        "Only some ranks constructed a wrapper such as DistributedDataParallel.",
        ROWS | _kinds("missing_call"), ("root",), yields_to=("CT104", "CT501", "CT204"),
        example="ddp/wrapped_anew_by_one", counter_example="ddp/model_sizes_differ",
    ),
    Cause(
        "CT515", "gradients-left-out",
        "The gradients of a module of a sharded model did not come on some ranks.",
        ROWS | _kinds("missing_call"), ("root",),
        yields_to=("CT104", "CT204", "CT510", "CT512"),
        example="sharded/module_cut_out_of_the_loss",
        counter_example="sharded/layer_dropped_at_random",
    ),
    Cause(
        "CT801", "one-rank-hook",
        "A collective stands in a function that a framework calls on one rank alone.",
        ALL, ("root",),
    ),
    Cause(
        "CT804", "decided-in-a-library",
        "A statement of a library decided, by something that is not the same on all ranks.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT2", "CT5", "CT801", "CT802"),
    ),
    Cause(
        "CT802", "others-held-at-entry",
        "A context manager lets one rank go first, and a collective stands in its body.",
        ROWS | _kinds("deadlock"), ("root",),
        example="matching/collective_while_one_goes_first",
    ),
)  # fmt: skip
"""THE table of causes, by code."""

BY_CODE: Final[Mapping[str, Cause]] = {cause.code: cause for cause in CAUSES}


@cache
def order() -> tuple[Cause, ...]:
    """Return the causes that are in use, those first that others yield to.

    Raises:
        graphlib.CycleError: causes yield to each other in a circle.

    """
    graph: dict[str, set[str]] = {}
    for cause in CAUSES:
        if cause.status != "retired":
            graph[cause.code] = {code for code in winners(cause) if code != cause.code}
    return tuple(BY_CODE[code] for code in graphlib.TopologicalSorter(graph).static_order())


def winners(cause: Cause) -> tuple[str, ...]:
    """Return the codes that win over a cause if both apply."""
    return tuple(
        other.code
        for other in CAUSES
        if other.status != "retired" and other.code.startswith(tuple(cause.yields_to))
    )
