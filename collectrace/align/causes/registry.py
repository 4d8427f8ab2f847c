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

    shared: str = ""
    """The module, if it has not one of its own name: several codes share it."""

    status: Status = "stable"

    reason: str = ""
    """Why it was retired, and in which version."""

    @property
    def module(self) -> str:
        """Name of the module that finds it and words it."""
        return self.shared or f"{self.code.lower()}_{self.name.replace('-', '_')}"

    @property
    def is_observed(self) -> bool:
        """Whether an observation finds it and words it: its module only holds the documentation."""
        return self.kinds <= INFORMATION

    @property
    def is_found(self) -> bool:
        """Whether it says why, not only that nothing says why."""
        return self.shared != "not_found"

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

ABSENCE: Final[frozenset[Kind]] = frozenset({"missing_call", "p2p_unmatched"})
"""Kinds of ranks that are waited for."""

INFORMATION: Final[frozenset[Kind]] = frozenset(k for k, v in KINDS.items() if v.status is None)
"""Kinds that are observed beside the errors, and never judged."""

ERRORS: Final[frozenset[Kind]] = frozenset(KINDS) - INFORMATION

ALL: Final[frozenset[Kind]] = frozenset(KINDS)


def _kinds(*kinds: Kind) -> frozenset[Kind]:
    return frozenset(kinds)


STATES: Final = ("CT30", "CT312", "CT313", "CT314", "CT315", "CT317", "CT319", "CT4")
"""Causes that win over whatever statement decided: what ranks do, and arguments of one call."""

CAUGHT: Final = ("CT2", "CT306", "CT319")
"""Causes that win over arguments that differ: those of frameworks, and calls that raised before."""

_FOUND: Final = ("CT1", "CT2", "CT3", "CT4", "CT5", "CT6", "CT7", "CT8")
"""All causes that explain a finding."""

_UNEXPLAINED: Final[tuple[Kind, ...]] = (
    "op_mismatch", "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch",
    "split_mismatch", "role_mismatch", "group_mismatch", "missing_call", "p2p_unmatched",
    "p2p_mismatch", "deadlock", "stall",
)  # fmt: skip
"""The kinds whose cause may not be found, from CT951 on: the order is for ever."""

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT101", "rank-condition",
        "A condition on the rank let only some ranks make a call.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=STATES,
        example="matching/missing", counter_example="healthy/leader_and_followers",
    ),
    Cause(
        "CT102", "decided-by-data",
        "A condition that can differ between ranks decided which calls they made.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT101", *STATES),
    ),
    Cause(
        "CT103", "loop-length",
        "A loop had more iterations on some ranks than on others.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=STATES,
    ),
    Cause(
        "CT104", "handled-exception",
        "Some ranks handled an exception that the others did not have.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=STATES,
    ),
    Cause(
        "CT105", "other-function",
        "One line called different functions on different ranks.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=STATES,
    ),
    Cause(
        "CT106", "other-value",
        "One line computed different values, and the calls after it differ.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=STATES,
    ),
    Cause(
        "CT301", "busy-elsewhere",
        "A rank is busy with something else and did not reach a call.",
        ABSENCE, ("root", "busy"), yields_to=("CT302", "CT303", "CT304", "CT305", "CT314"),
        example="stopped/slow_loader", counter_example="stopped/sigkill",
    ),
    Cause(
        "CT302", "raised-exception",
        "A rank raised an exception and ended, and the others wait for it.",
        ABSENCE, ("root", "raised"), yields_to=("CT2", "CT306", "CT315", "CT317"),
        example="stopped/exception", counter_example="healthy/raises_and_takes_part",
    ),
    Cause(
        "CT303", "died",
        "A rank's process ended without a last line, and the others wait for it.",
        ABSENCE, ("root", "died"), yields_to=("CT302",),
        example="stopped/sigkill", counter_example="healthy/killed_when_done",
    ),
    Cause(
        "CT304", "never-started",
        "A rank left no file, and the others wait for it.",
        ABSENCE, ("root", "missing"), yields_to=("CT302", "CT303"),
        example="stopped/before_init", counter_example="stopped/before_new_group",
    ),
    Cause(
        "CT305", "stopped-process",
        "A rank's process exists but gives no sign of life, and the others wait for it.",
        ABSENCE | _kinds("stall"), ("root", "silent"), yields_to=("CT302", "CT303", "CT304"),
        example="stopped/gil_held", counter_example="stopped/endless_loop",
    ),
    Cause(
        "CT306", "refused-call",
        "A call was refused on some ranks over its own arguments.",
        ROWS | _kinds("missing_call", "deadlock"), ("root",),
    ),
    Cause(
        "CT307", "threads-share-group",
        "Several threads make calls on one group, and nothing orders them.",
        ROWS, ("root", "several"), yields_to=("CT306",),
        example="threads/two_threads_one_group", counter_example="healthy/threads_in_order",
    ),
    Cause(
        "CT308", "came-late",
        "A rank reached a call when the others had given up waiting.",
        _kinds("stall"), ("root",),
        example="stopped/late_after_timeout", counter_example="stopped/sigstop_inside_the_call",
    ),
    Cause(
        "CT309", "never-completes",
        "Every rank reached a call, and it never completes.",
        _kinds("stall"), ("root",), yields_to=("CT305", "CT308", "CT316"),
    ),
    Cause(
        "CT310", "finished-without",
        "A rank finished without a call that the others wait in.",
        _kinds("missing_call"), ("root", "finished"),
        yields_to=("CT1", "CT2", "CT30", "CT311", "CT312", "CT313"),
    ),
    Cause(
        "CT311", "waits-elsewhere",
        "A rank waits in another call and did not reach this one.",
        _kinds("missing_call"), ("root", "absent"), yields_to=("CT1", "CT2", "CT30", "CT315"),
        example="threads/future_of_a_waiting_thread", counter_example="stopped/exception",
    ),
    Cause(
        "CT312", "left-job",
        "A rank destroyed its process groups to form the job anew, and the others did not.",
        _kinds("missing_call"), ("root", "finished"),
        example="stopped/formed_anew_by_one", counter_example="stopped/functional_wait_of_absent",
    ),
    Cause(
        "CT313", "left-by-exit",
        "A rank left by sys.exit() in the middle of its program.",
        ABSENCE, ("root", "finished"),
        example="stopped/handler_exits_as_if_done",
        counter_example="stopped/functional_wait_of_absent",
    ),
    Cause(
        "CT314", "thread-ended",
        "An exception ended a thread of a rank, and the rank waits for it.",
        ABSENCE, ("root", "busy"), yields_to=("CT302", "CT303", "CT304", "CT305"),
        example="stopped/helper_thread_raises", counter_example="stopped/lock",
    ),
    Cause(
        "CT315", "gave-up-outside",
        "A rank gave up waiting for something outside of all collectives.",
        ABSENCE, ("root", "raised"),
        example="stopped/restart_count_of_one_agent", counter_example="stopped/exception",
    ),
    Cause(
        "CT316", "callbacks-wait",
        "Callbacks of gloo wait for calls that no thread of gloo is left to run.",
        _kinds("stall"), ("root",),
    ),
    Cause(
        "CT317", "returned-early",
        "A rank returned before a call, and raised an exception later.",
        _kinds("missing_call"), ("root", "raised", "decisions"), yields_to=("CT306", "CT315"),
    ),
    Cause(
        "CT318", "too-early",
        "Ranks had not reached a call when the logs end, and that proves nothing.",
        ERRORS, ("early",),
        example="healthy/killed_everywhere", counter_example="stopped/interrupted",
    ),
    Cause(
        "CT319", "caught-error",
        "A function of torch raised on some ranks only, and the program went on.",
        ROWS, ("root", "several"), yields_to=("CT306", "CT307"),
        example="matching/plan_that_never_came", counter_example="matching/errors_of_both_plans",
    ),
    Cause(
        "CT401", "other-dtype",
        "One call got tensors of different dtypes.",
        _kinds("dtype_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT402", "CT413"),
        example="matching/dtype_differs", counter_example="matching/dtype_autocast",
    ),
    Cause(
        "CT402", "half-precision",
        "One call got tensors of half precision on some ranks only.",
        _kinds("dtype_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT413"),
        example="matching/dtype_autocast", counter_example="matching/dtype_differs",
    ),
    Cause(
        "CT403", "other-size",
        "One call got tensors of different sizes.",
        _kinds("shape_mismatch"), ("root", "several"),
        yields_to=(*CAUGHT, "CT404", "CT409", "CT410", "CT411", "CT412", "CT413"),
        example="matching/one_loss_less", counter_example="matching/last_batch_of_one",
    ),
    Cause(
        "CT404", "ragged-batch",
        "The last batch of a rank is smaller, and so is what it passed to a call.",
        _kinds("shape_mismatch"), ("root", "several"),
        yields_to=(*CAUGHT, "CT409", "CT410", "CT411", "CT412", "CT413"),
        example="matching/last_batch_of_one", counter_example="matching/classes_behind_the_loader",
    ),
    Cause(
        "CT405", "other-reduce-op",
        "The ranks combined one tensor by different reductions.",
        _kinds("reduce_op_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT413"),
        example="matching/reduce_op_differs", counter_example="matching/names_in_a_set",
    ),
    Cause(
        "CT406", "other-root",
        "The ranks named different roots for one call.",
        _kinds("root_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT413", "CT415"),
        example="matching/root_differs", counter_example="matching/root_is_own_rank",
    ),
    Cause(
        "CT407", "other-splits",
        "The sizes of an all_to_all do not fit pair by pair.",
        _kinds("split_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT408"),
        example="matching/all_to_all_pairs",
        counter_example="matching/duplicates_dropped_after_counts",
    ),
    Cause(
        "CT408", "splits-changed",
        "The ranks exchanged the sizes of an all_to_all, and one then used others.",
        _kinds("split_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/duplicates_dropped_after_counts",
        counter_example="matching/all_to_all_pairs",
    ),
    Cause(
        "CT409", "other-batching",
        "The ranks batched their calls differently.",
        _kinds("op_mismatch", "shape_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/coalesced_grouping", counter_example="healthy/coalesced",
    ),
    Cause(
        "CT410", "object-lists",
        "Lists of objects have different lengths.",
        _kinds("shape_mismatch", "p2p_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/names_grow_on_the_source", counter_example="matching/count_differs",
    ),
    Cause(
        "CT411", "other-shape",
        "One call got as many elements in different shapes.",
        _kinds("shape_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT409", "CT413"),
        example="matching/shape_differs_count_agrees", counter_example="matching/count_differs",
    ),
    Cause(
        "CT412", "input-misfits-output",
        "What goes into a call and what comes out do not fit the group.",
        _kinds("shape_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT409"),
    ),
    Cause(
        "CT413", "other-element",
        "One line goes through several tensors, and the ranks are at different ones.",
        _kinds("dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch"),
        ("root", "several"), yields_to=(*CAUGHT, "CT409", "CT410", "CT412", "CT415"),
        example="matching/one_mask_fewer", counter_example="matching/masked_out_metric",
    ),
    Cause(
        "CT414", "swapped-lines",
        "The ranks made two calls in swapped order, and the bytes agree.",
        _kinds("role_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT307"),
        example="matching/metrics_swapped", counter_example="threads/reporter_a_step_early",
    ),
    Cause(
        "CT415", "root-of-own-number",
        "Every rank worked out the root of a call from its own number.",
        _kinds("root_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/root_is_own_rank", counter_example="matching/root_differs",
    ),
    Cause(
        "CT416", "decided-at-root",
        "The ranks decided by a result that only the root got.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=(*CAUGHT, "CT30"),
        example="matching/reduced_to_the_root", counter_example="groups/unused_in_one_node",
    ),
    Cause(
        "CT901", "consequence",
        "It follows from another finding of the run.",
        ERRORS, ("consequence",),
        example="groups/mesh", counter_example="stopped/exception",
    ),
    Cause(
        "CT902", "lost-calls",
        "The ranks differ in calls of which a log has lost the lines.",
        _kinds("lost_mismatch"), ("root",),
    ),
    Cause(
        "CT911", "crashed-alike",
        "Ranks ended with an exception though their collectives agree.",
        _kinds("raised"),
        example="healthy/crashed_everywhere",
    ),
    Cause(
        "CT912", "uneven-inputs",
        "The ranks had different numbers of batches, and nothing failed because of it.",
        _kinds("uneven_inputs"),
    ),
    Cause(
        "CT913", "straggler",
        "One rank kept the others waiting, in most of its calls.",
        _kinds("straggler"),
        example="healthy/straggler",
    ),
    Cause(
        "CT914", "config-skew",
        "The ranks were not started alike: versions, environment, code or devices differ.",
        _kinds("config_skew"),
    ),
    Cause(
        "CT915", "sampler-epoch",
        "A shuffling sampler was never told the epoch.",
        _kinds("sampler_epoch"),
    ),
    Cause(
        "CT916", "unwaited-work",
        "Nobody waited for the work of an asynchronous call, or its tensor was written before.",
        _kinds("unwaited_work"),
        example="stopped/unwaited_work",
    ),
    Cause(
        "CT917", "early-termination",
        "join() ended the job when the first rank ran out of inputs, as it was asked to.",
        _kinds("early_termination"),
        example="healthy/join_throws",
    ),
    Cause(
        "CT918", "evidence-gap",
        "Evidence that would be needed to judge is not there.",
        _kinds("evidence_gap"),
        example="stopped/enable_forgotten",
    ),
    *(
        Cause(
            f"CT{number}", f"unexplained-{kind.replace('_', '-')}",
            f"The cause was not found: {KINDS[kind].meaning}.",
            _kinds(kind), ("root",), yields_to=_FOUND, shared="not_found",
        )
        for number, kind in enumerate(_UNEXPLAINED, 951)
    ),
)  # fmt: skip
"""THE table of causes, by code."""

BY_CODE: Final[Mapping[str, Cause]] = {cause.code: cause for cause in CAUSES}


def observed(kind: Kind) -> str:
    """Return the code of what is observed beside the errors."""
    return next(one.code for one in CAUSES if one.is_observed and kind in one.kinds)


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
