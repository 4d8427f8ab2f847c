"""The one table of causes, and the order in which they are tried."""

from __future__ import annotations

import graphlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any, Final, Literal

from collectrace.align.causes import phrases
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
        said = words(situation, found)
        return replace(said, headline=phrases.fitted(said.headline))


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


STATES: Final = (
    "CT2", "CT5", "CT602", "CT8", "CT30", "CT312", "CT313", "CT314", "CT317", "CT319",
    "CT4",
)  # fmt: skip
"""Causes that win over whatever statement decided: what ranks do, and arguments of one call."""

CAUGHT: Final = (
    "CT2", "CT306", "CT319", "CT501", "CT502", "CT504", "CT506", "CT508", "CT509", "CT510", "CT511",
    "CT512", "CT513", "CT515",
)  # fmt: skip
"""Causes that win over arguments that differ: those of frameworks, and calls that raised before."""

_FOUND: Final = ("CT1", "CT2", "CT3", "CT4", "CT5", "CT6", "CT7", "CT8")
"""All causes that explain a finding."""

_UNEXPLAINED: Final[tuple[Kind, ...]] = (
    "op_mismatch", "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch",
    "split_mismatch", "role_mismatch", "group_mismatch", "missing_call", "p2p_unmatched",
    "p2p_mismatch", "deadlock", "stall",
)  # fmt: skip
"""The kinds whose cause may not be found, from CT951 on: the order is for ever."""

HANDLED: Final = (
    "CT2", "CT30", "CT312", "CT313", "CT314", "CT317", "CT319", "CT4", "CT501", "CT504",
    "CT506", "CT509", "CT510", "CT511", "CT512", "CT515", "CT801", "CT802",
)  # fmt: skip
"""Causes that win over an exception that some ranks handled."""

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT101", "rank-condition",
        "A condition on the rank let only some ranks make a call.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT108"),
        example="stopped/exception_lived_with", counter_example="healthy/mesh_rank_zero_logs",
    ),
    Cause(
        "CT102", "decided-by-data",
        "A condition that can differ between ranks decided which calls they made.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT101", "CT104", "CT107", "CT108", *STATES),
    ),
    Cause(
        "CT103", "loop-length",
        "A loop had more iterations on some ranks than on others.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=(*STATES, "CT104", "CT108"),
    ),
    Cause(
        "CT104", "handled-exception",
        "Some ranks handled an exception that the others did not have.",
        ROWS | _kinds("missing_call", "deadlock"), ("root",), yields_to=HANDLED,
    ),
    Cause(
        "CT105", "other-function",
        "One line called different functions on different ranks.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT107", "CT108"),
    ),
    Cause(
        "CT106", "other-value",
        "One line computed different values, and the calls after it differ.",
        ROWS | _kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT107", "CT108"),
    ),
    Cause(
        "CT107", "iteration-order",
        "A loop gave the ranks other items, or the same items in another order.",
        ROWS | _kinds("missing_call"), ("root", "decisions"), yields_to=STATES,
    ),
    Cause(
        "CT108", "other-order",
        "A rank made the same calls as the others, in another order.",
        ROWS, ("root",), yields_to=(*STATES, "CT104", "CT107"),
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
        _kinds("missing_call"), ("root", "raised"),
        yields_to=("CT2", "CT306", "CT317", "CT501", "CT505"),
        example="stopped/exception", counter_example="healthy/raises_and_takes_part",
    ),
    Cause(
        "CT303", "died",
        "A rank's process ended without a last line, and the others wait for it.",
        _kinds("missing_call"), ("root", "died"), yields_to=("CT302",),
        example="stopped/sigkill", counter_example="healthy/killed_when_done",
    ),
    Cause(
        "CT304", "never-started",
        "A rank left no file, and the others wait for it.",
        _kinds("missing_call"), ("root", "missing"), yields_to=("CT302", "CT303"),
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
        ROWS | _kinds("missing_call", "deadlock"), ("root", "caught"),
        example="stopped/error_caught_by_a_wrapper_of_two",
        counter_example="matching/plan_that_never_came",
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
        yields_to=("CT1", "CT2", "CT30", "CT312", "CT313"),
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
        _kinds("missing_call"), ("root", "finished"),
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
        "CT316", "callbacks-wait",
        "Callbacks of gloo wait for calls that no thread of gloo is left to run.",
        _kinds("stall"), ("root",),
    ),
    Cause(
        "CT317", "returned-early",
        "A rank returned before a call, and raised an exception later.",
        _kinds("missing_call"), ("root", "raised", "decisions"), yields_to=("CT306",),
        example="stopped/returned_before_the_exchange", counter_example="stopped/exception",
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
        ROWS, ("root", "caught", "several"), yields_to=("CT306", "CT307"),
        example="matching/plan_that_never_came", counter_example="matching/errors_of_both_plans",
    ),
    Cause(
        "CT401", "other-dtype",
        "One call got tensors of different dtypes.",
        _kinds("dtype_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT402", "CT413"),
        example="matching/dtype_differs", counter_example="loops/verifier_error_swallowed",
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
        example="matching/one_loss_less", counter_example="matching/helper_other_size",
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
        example="matching/reduce_op_differs", counter_example="matching/one_row_fits",
    ),
    Cause(
        "CT406", "other-root",
        "The ranks named different roots for one call.",
        _kinds("root_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT413", "CT415"),
        example="matching/root_differs", counter_example="healthy/root_rotates",
    ),
    Cause(
        "CT407", "other-splits",
        "The sizes of an all_to_all do not fit pair by pair.",
        _kinds("split_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT408"),
        example="matching/all_to_all_pairs",
        counter_example="healthy/uneven_all_to_all",
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
        _kinds("shape_mismatch"), ("root", "several"), yields_to=CAUGHT,
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
        ROWS | _kinds("missing_call"), ("root", "inputs"), yields_to=("CT201", "CT202", "CT203"),
        example="join/inputs_uneven", counter_example="ddp/stops_early_and_ends",
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
        ROWS | _kinds("missing_call"), ("root", "frameworks", "suspects"),
        yields_to=("CT2", "CT501", "CT506", "CT508", "CT510", "CT512", "CT803"),
        example="ddp/evaluation_after_training", counter_example="ddp/two_models_swapped",
    ),
    Cause(
        "CT504", "no-sync-boundaries",
        "no_sync() was entered for other micro-batches on some ranks.",
        ROWS | _kinds("missing_call"), ("root", "frameworks", "suspects"),
        example="ddp/no_sync_boundaries", counter_example="ddp/accumulating_step_skipped",
    ),
    Cause(
        "CT505", "unused-parameters",
        "Parameters took no part in the loss on some ranks.",
        ROWS | _kinds("missing_call"), ("root", "ddp"),
        yields_to=("CT204", "CT502", "CT508", "CT509"),
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
        ROWS | _kinds("missing_call"), ("root", "frameworks", "decisions", "suspects"),
        yields_to=("CT104", "CT2", "CT504", "CT505", "CT508", "CT510", "CT801", "CT802", "CT803"),
        example="ddp/call_between_forward_and_backward",
        counter_example="ddp/skipped_step",
    ),
    Cause(
        "CT508", "backward-skipped",
        "A rank skipped a whole iteration: it ran no backward() where the others did.",
        ROWS | _kinds("missing_call"), ("root", "frameworks", "suspects"), yields_to=("CT204", "CT504"),
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
        ROWS | _kinds("missing_call"), ("root", "frameworks"),
        example="sharded/recomputed_on_one_rank", counter_example="sharded/block_run_by_itself",
    ),
    Cause(
        "CT511", "module-left-out",
        "Some ranks left out a module of a sharded model.",
        ROWS | _kinds("missing_call"), ("root", "frameworks"),
        yields_to=("CT204", "CT510", "CT512"),
        example="sharded/layer_dropped_at_random", counter_example="sharded/widths_differ",
    ),
    Cause(
        "CT512", "resharding-differs",
        "A sharded module kept its parameters after the forward on some ranks only.",
        ROWS, ("root", "frameworks"),
        example="sharded/kept_gathered_where_there_is_room",
        counter_example="sharded/module_cut_out_of_the_loss",
    ),
    Cause(
        "CT513", "framework-arguments",
        "A framework made the same call on all ranks, with other sizes, types or roots.",
        _kinds("shape_mismatch", "dtype_mismatch", "split_mismatch", "root_mismatch"), ("root", "frameworks"),
        yields_to=("CT2", "CT501", "CT502", "CT506", "CT508"),
        example="sharded/widths_differ", counter_example="ddp/bucket_caps_differ",
    ),
    Cause(
        "CT515", "gradients-left-out",
        "The gradients of a module of a sharded model did not come on some ranks.",
        ROWS | _kinds("missing_call"), ("root", "frameworks"),
        yields_to=("CT204", "CT510", "CT512"),
        example="sharded/module_cut_out_of_the_loss",
        counter_example="sharded/layer_dropped_at_random",
    ),
    Cause(
        "CT801", "one-rank-hook",
        "A collective stands in a function that a framework calls on one rank alone.",
        ALL, ("root", "frameworks"),
    ),
    Cause(
        "CT803", "computed-once",
        "A function that keeps its result makes a collective the first time it is used.",
        ROWS | _kinds("missing_call"), ("root",), yields_to=("CT801", "CT802"),
    ),
    Cause(
        "CT804", "decided-in-a-library",
        "A library decided, by something that is not the same on all ranks.",
        ROWS | _kinds("missing_call"), ("root", "library"),
        yields_to=("CT2", "CT5", "CT801", "CT802", "CT803"),
    ),
    Cause(
        "CT802", "others-held-at-entry",
        "A context manager lets one rank go first, and a collective stands in its body.",
        ROWS | _kinds("deadlock"), ("root",),
        example="matching/collective_while_one_goes_first",
    ),
    Cause(
        "CT601", "other-group",
        "At one place in the program, ranks created groups with different members.",
        _kinds("group_mismatch"), ("root",), yields_to=("CT602", "CT603"),
        example="groups/created_with_other_ranks", counter_example="groups/created_on_one_rank",
    ),
    Cause(
        "CT602", "group-skipped",
        "Some ranks did not create a group that the others created.",
        _kinds("group_mismatch", "missing_call"), ("root",),
        yields_to=("CT301", "CT302", "CT303", "CT304", "CT305", "CT603"),
        example="groups/created_on_one_rank", counter_example="groups/created_with_other_ranks",
    ),
    Cause(
        "CT603", "members-make-group",
        "Members of a group that is made by its members only wait for each other.",
        _kinds("group_mismatch", "missing_call", "deadlock"), ("root",),
        example="groups/local_groups_in_a_ring", counter_example="groups/created_in_other_order",
    ),
    Cause(
        "CT604", "wrong-group",
        "One line called a collective on different groups.",
        _kinds("deadlock", "role_mismatch"), ("root",), yields_to=("CT603",),
        example="groups/wrong_group_same_members", counter_example="groups/rank_without_tokens",
    ),
    Cause(
        "CT605", "opposite-group-order",
        "Ranks entered two groups in opposite order, and wait for each other.",
        _kinds("deadlock"), ("root",), yields_to=("CT104", "CT603", "CT604", "CT606"),
        example="groups/barrier_among_leaders", counter_example="groups/opposite_order",
    ),
    Cause(
        "CT606", "skipped-in-group",
        "A rank departed from its usual calls, and the ranks wait in different groups.",
        _kinds("deadlock"), ("root",), yields_to=("CT104", "CT603", "CT604"),
        example="groups/rank_without_tokens", counter_example="groups/opposite_order",
    ),
    Cause(
        "CT607", "repeated",
        "The error of another group, or of another message, once more.",
        ALL, ("consequence",),
        example="groups/first_of_each_pair", counter_example="groups/rank_without_tokens",
    ),
    Cause(
        "CT701", "message-order",
        "Ranks wait for each other's messages, because each begins with the same operation.",
        _kinds("deadlock"), ("root",), yields_to=("CT702", "CT710", "CT712"),
        example="p2p/both_receive_first", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT702", "wrong-peer-or-too-early",
        "A send closes a cycle of waits: it went to the wrong rank, or it comes too early.",
        _kinds("deadlock"), ("root",), yields_to=("CT710", "CT712"),
        example="p2p/wrong_peer_in_a_ring", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT703", "broken-exchange",
        "A rank departed from an exchange of messages that had worked before.",
        _kinds("deadlock"), ("root",), yields_to=("CT701", "CT702", "CT704", "CT710", "CT712"),
        example="p2p/gradient_that_was_not_sent", counter_example="p2p/both_receive_first",
    ),
    Cause(
        "CT704", "message-without-other-end",
        "A send has no receive, or a receive has no send.",
        _kinds("deadlock", "p2p_unmatched"), ("root",),
        yields_to=(
            "CT301", "CT305", "CT314", "CT701", "CT702", "CT705", "CT706", "CT709", "CT710",
            "CT712",
        ),
        example="p2p/five_sends_four_recvs", counter_example="p2p/wrong_tag",
    ),
    Cause(
        "CT705", "other-tag-or-peer",
        "A send and a receive would match but for one thing: the tag, the peer, or the group.",
        _kinds("p2p_unmatched"), ("root",), yields_to=("CT706", "CT710"),
        example="p2p/wrong_tag", counter_example="p2p/stage_numbers",
    ),
    Cause(
        "CT706", "group-rank-as-peer",
        "Messages name their peers by ranks in a group, where global ranks are expected.",
        _kinds("p2p_unmatched"), ("root",),
        example="p2p/stage_numbers", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT707", "message-size",
        "The two ends of a message differ in size or dtype.",
        _kinds("p2p_mismatch"), ("root",), yields_to=("CT708", "CT713"),
        example="p2p/size_differs", counter_example="p2p/neighbour_on_both_sides",
    ),
    Cause(
        "CT708", "messages-crossed",
        "The messages of a channel are in another order, or of another list, at its two ends.",
        _kinds("p2p_mismatch"), ("root",),
        example="p2p/neighbour_on_both_sides", counter_example="p2p/one_of_alternating_left_out",
    ),
    Cause(
        "CT709", "sender-left",
        "A rank left before a message that it had begun to send arrived.",
        _kinds("p2p_unmatched"), ("root",),
        example="p2p/summaries_left_behind", counter_example="p2p/missing_send",
    ),
    Cause(
        "CT710", "partners-not-mutual",
        "Ranks exchange messages in pairs, and one named another partner than the others expect.",
        _kinds("deadlock", "p2p_unmatched"), ("root",),
        example="p2p/partner_of_another_round", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT711", "message-and-collective",
        "Some ranks wait in a message, others in a collective, and each comes before the other.",
        _kinds("deadlock"), ("root",), yields_to=("CT702", "CT703", "CT704", "CT710", "CT712"),
        example="p2p/crossed_with_collective", counter_example="p2p/gossip_without_news",
    ),
    Cause(
        "CT712", "recomputed-message",
        "A message of a forward was made again within backward().",
        _kinds("deadlock"), ("root",),
        example="p2p/part_received_again", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT713", "received-from-any",
        "A receive from any rank took a message that was meant for another receive.",
        _kinds("p2p_mismatch"), ("root",),
        example="p2p/score_of_whoever", counter_example="p2p/size_differs",
    ),
    Cause(
        "CT901", "consequence",
        "It follows from another finding of the run.",
        ERRORS, ("consequence",), yields_to=("CT607",),
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
        "CT912", "other-batch-counts",
        "The ranks had different numbers of batches, and nothing failed because of it.",
        _kinds("uneven_inputs"),
    ),
    Cause(
        "CT913", "straggler",
        "One rank kept the others waiting, in most of its calls.",
        _kinds("straggler"),
        example="healthy/rotated",
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
