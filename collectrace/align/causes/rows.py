"""The table of causes: one row for each code in use, and the codes that are retired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectrace.align.causes.cause import CAUGHT, ERRORS, ROWS, STATES, Cause, kinds

USED: Final[tuple[Cause, ...]] = (
    Cause(
        "CT102", "skipped-by-condition",
        "A condition was not the same on all ranks, and decided which calls they made.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT108", "CT604"),
        example="stopped/exception_lived_with", counter_example="healthy/mesh_rank_zero_logs",
    ),
    Cause(
        "CT103", "loop-length",
        "A loop had more iterations on some ranks than on others.",
        ROWS | kinds("missing_call"), ("root", "decisions"), yields_to=(*STATES, "CT104", "CT108"),
    ),
    Cause(
        "CT104", "handled-exception",
        "Some ranks handled an exception that the others did not have.",
        ROWS | kinds("missing_call", "deadlock"),
        yields_to=("CT2", "CT30", "CT317", "CT502", "CT505", "CT508", "CT510", "CT511", "CT801"),
    ),
    Cause(
        "CT106", "other-value",
        "One line gave the ranks other values, items or functions, and the calls after it differ.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT108", "CT604", "CT804"),
    ),
    Cause(
        "CT108", "other-order",
        "A rank made the same calls as the others, in another order.",
        ROWS, yields_to=(*STATES, "CT104"),
    ),
    Cause(
        "CT201", "unanswered-in-join",
        "A call inside join() met another call, by which a rank without inputs answers there.",
        ROWS,
        example="join/barrier_inside", counter_example="join/inputs_uneven",
    ),
    Cause(
        "CT204", "uneven-inputs",
        "Some ranks had fewer batches than others, and nothing takes care of that.",
        ROWS | kinds("missing_call"), yields_to=("CT201",),
        example="join/inputs_uneven", counter_example="ddp/stops_early_and_ends",
    ),
    Cause(
        "CT302", "absent-rank",
        "A rank that others wait for raised an exception, ended, stopped, or is busy.",
        kinds("missing_call", "p2p_unmatched"),
        yields_to=("CT2", "CT306", "CT317", "CT502", "CT505", "CT608"),
        example="stopped/exception", counter_example="healthy/raises_and_takes_part",
    ),
    Cause(
        "CT306", "refused-call",
        "A call was refused on some ranks over its own arguments.",
        ROWS | kinds("missing_call", "deadlock"),
        example="stopped/error_caught_by_a_wrapper_of_two",
        counter_example="matching/plan_that_never_came",
    ),
    Cause(
        "CT307", "threads-share-group",
        "Several threads make calls on one group, and nothing orders them.",
        ROWS, yields_to=("CT306",),
        example="threads/two_threads_one_group", counter_example="healthy/threads_in_order",
    ),
    Cause(
        "CT309", "never-completes",
        "Every rank reached a call, and it does not complete: a rank stopped in it, or came late.",
        kinds("stall"),
        example="stopped/late_after_timeout", counter_example="stopped/exception",
    ),
    Cause(
        "CT317", "returned-early",
        "A rank returned before a call, and raised an exception later.",
        kinds("missing_call"), ("root", "decisions"), yields_to=("CT306",),
        example="stopped/returned_before_the_exchange", counter_example="stopped/exception",
    ),
    Cause(
        "CT318", "too-early",
        "Ranks had not reached a call when the logs end, and that proves nothing.",
        ERRORS, ("early",),
        example="healthy/killed_everywhere", counter_example="stopped/interrupted",
    ),
    Cause(
        "CT320", "held-across-a-call",
        "Ranks wait for each other: one for a lock or the like that a rank in a call holds.",
        kinds("deadlock"),
        example="stopped/lock_held_across_call", counter_example="stopped/lock",
    ),
    Cause(
        "CT403", "other-argument",
        "All ranks made one call, with tensors, ops or roots that differ.",
        kinds("op_mismatch", "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch",
              "root_mismatch"),
        yields_to=(*CAUGHT, "CT413"),
        example="matching/one_loss_less", counter_example="loops/verifier_error_swallowed",
    ),
    Cause(
        "CT407", "other-splits",
        "The sizes of an all_to_all do not fit pair by pair.",
        kinds("split_mismatch"), yields_to=CAUGHT,
        example="matching/all_to_all_pairs",
        counter_example="healthy/uneven_all_to_all",
    ),
    Cause(
        "CT413", "other-element",
        "One line goes through several tensors, and the ranks are at different ones.",
        kinds("dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch"),
        yields_to=CAUGHT,
        example="matching/one_mask_fewer", counter_example="matching/masked_out_metric",
    ),
    Cause(
        "CT502", "models-differ",
        "Ranks built their models, or wrapped them, differently, or used them in another order.",
        ROWS | kinds("missing_call"), yields_to=("CT508",),
        example="ddp/model_sizes_differ", counter_example="ddp/head_left_out_of_the_loss",
    ),
    Cause(
        "CT503", "among-frameworks",
        "Only some ranks ran a forward of a wrapped model, or made a call among a framework's.",
        ROWS | kinds("missing_call"), ("root", "suspects"),
        yields_to=("CT104", "CT2", "CT502", "CT505", "CT508", "CT510", "CT801"),
        example="ddp/evaluation_after_training", counter_example="ddp/two_models_swapped",
    ),
    Cause(
        "CT505", "left-out-of-the-loss",
        "What some ranks computed took no part in their loss: a part of backward() did not run.",
        ROWS | kinds("missing_call"), yields_to=("CT204", "CT502", "CT508", "CT510"),
        example="ddp/head_left_out_of_the_loss", counter_example="ddp/last_step_skipped",
    ),
    Cause(
        "CT508", "iteration-skipped",
        "A rank ran no backward() where the others did, or ran it inside no_sync().",
        ROWS | kinds("missing_call"), yields_to=("CT204",),
        example="ddp/skipped_step", counter_example="ddp/accumulation_tail_flush",
    ),
    Cause(
        "CT510", "recomputed",
        "A forward ran again within backward() on some ranks only.",
        ROWS | kinds("missing_call"),
        example="sharded/recomputed_on_one_rank", counter_example="sharded/block_run_by_itself",
    ),
    Cause(
        "CT511", "module-left-out",
        "Some ranks left out a module of a sharded model.",
        ROWS | kinds("missing_call"), yields_to=("CT204", "CT502", "CT510"),
        example="sharded/layer_dropped_at_random", counter_example="sharded/widths_differ",
    ),
    Cause(
        "CT602", "group-creation-differs",
        "Some ranks did not create a group that others created, or with other members.",
        kinds("group_mismatch", "missing_call"), yields_to=("CT302", "CT603"),
        example="groups/created_on_one_rank", counter_example="groups/wrong_group_same_members",
    ),
    Cause(
        "CT603", "members-make-group",
        "Members of a group that is made by its members only wait for each other.",
        kinds("group_mismatch", "missing_call", "deadlock"),
        example="groups/local_groups_in_a_ring", counter_example="groups/created_in_other_order",
    ),
    Cause(
        "CT604", "wrong-group",
        "One line called a collective on different groups.",
        ROWS | kinds("deadlock"), yields_to=("CT603",),
        example="groups/wrong_group_same_members", counter_example="groups/rank_without_tokens",
    ),
    Cause(
        "CT606", "wait-in-different-groups",
        "Ranks wait for each other in different groups: one skipped a call, or the orders differ.",
        kinds("deadlock"), yields_to=("CT104", "CT603", "CT604", "CT608"),
        example="groups/rank_without_tokens", counter_example="groups/local_groups_in_a_ring",
    ),
    Cause(
        "CT608", "not-in-the-group",
        "A rank called a collective on a group that it is not in, which torch ignores.",
        ROWS | kinds("deadlock", "missing_call"), ("root", "suspects"),
        example="groups/group_of_another_row", counter_example="groups/wrong_group_same_members",
    ),
    Cause(
        "CT701", "message-order",
        "Ranks wait for each other's messages, because they make their calls in other orders.",
        kinds("deadlock"), yields_to=("CT702", "CT710", "CT712"),
        example="p2p/both_receive_first", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT702", "wrong-peer-or-too-early",
        "A send closes a cycle of waits: it went to the wrong rank, or it comes too early.",
        kinds("deadlock"), yields_to=("CT710", "CT712"),
        example="p2p/wrong_peer_in_a_ring", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT703", "broken-exchange",
        "A rank departed from an exchange of messages that had worked before.",
        kinds("deadlock"),
        yields_to=("CT104", "CT701", "CT702", "CT704", "CT705", "CT710", "CT712"),
        example="p2p/gradient_that_was_not_sent", counter_example="p2p/both_receive_first",
    ),
    Cause(
        "CT704", "message-without-other-end",
        "A send has no receive, or a receive has no send.",
        kinds("deadlock", "p2p_unmatched"), yields_to=(
            "CT302", "CT701", "CT702", "CT705", "CT710", "CT712",
        ),
        example="p2p/five_sends_four_recvs", counter_example="p2p/answers_to_a_full_batch",
    ),
    Cause(
        "CT705", "other-tag-or-peer",
        "A send and a receive would match except for one thing: the tag, the peer, or the group.",
        kinds("deadlock", "p2p_unmatched"), yields_to=("CT710",),
        example="p2p/wrong_tag", counter_example="p2p/wrong_peer_in_a_ring",
    ),
    Cause(
        "CT707", "message-size",
        "The two ends of a message differ in size or dtype.",
        kinds("p2p_mismatch"), yields_to=("CT708",),
        example="p2p/size_differs", counter_example="p2p/wrong_tag",
    ),
    Cause(
        "CT708", "messages-crossed",
        "The messages of a channel are in another order, or of another list, at its two ends.",
        kinds("p2p_mismatch"),
        example="p2p/neighbour_on_both_sides", counter_example="p2p/short_batch_down_the_line",
    ),
    Cause(
        "CT710", "partners-not-mutual",
        "Ranks exchange messages in pairs, and one named another partner than the others expect.",
        kinds("deadlock", "p2p_unmatched"),
        example="p2p/partner_of_another_round", counter_example="p2p/wrong_peer",
    ),
    Cause(
        "CT712", "recomputed-message",
        "A message of a forward was made again within backward().",
        kinds("deadlock"),
        example="p2p/part_received_again", counter_example="p2p/gradient_that_was_not_sent",
    ),
    Cause(
        "CT801", "entered-by-one",
        "A collective is in a function or a block that only some ranks enter at this point.",
        ROWS | kinds("missing_call", "deadlock"),
        example="matching/collective_while_one_goes_first",
        counter_example="matching/extra_before_the_entry",
    ),
    Cause(
        "CT804", "decided-in-a-library",
        "A library decided, by something that is not the same on all ranks.",
        ROWS | kinds("missing_call"), yields_to=("CT2", "CT5", "CT801"),
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
        kinds("lost_mismatch"),
    ),
    Cause(
        "CT911", "crashed-alike",
        "Ranks ended with an exception though their collectives agree.",
        kinds("raised"),
        example="healthy/crashed_everywhere",
    ),
    Cause(
        "CT912", "other-batch-counts",
        "The ranks had different numbers of batches, and nothing failed because of it.",
        kinds("uneven_inputs"),
    ),
    Cause(
        "CT913", "straggler",
        "One rank kept the others waiting, in most of its calls.",
        kinds("straggler"),
        example="healthy/rotated",
    ),
    Cause(
        "CT914", "config-skew",
        "The ranks were not started alike: versions, environment, code or devices differ.",
        kinds("config_skew"),
    ),
    Cause(
        "CT915", "sampler-epoch",
        "A shuffling sampler never got the epoch.",
        kinds("sampler_epoch"),
    ),
    Cause(
        "CT916", "unwaited-work",
        "Nobody waited for the work of an asynchronous call, or its tensor was written before.",
        kinds("unwaited_work"),
        example="stopped/unwaited_work",
    ),
    Cause(
        "CT917", "early-termination",
        "join() ended the job when the first rank ran out of inputs, as configured.",
        kinds("early_termination"),
        example="healthy/join_throws",
    ),
    Cause(
        "CT918", "evidence-gap",
        "Evidence that would be needed to judge is not there.",
        kinds("evidence_gap"),
        example="stopped/enable_forgotten",
    ),
    Cause(
        "CT951", "unexplained",
        "The cause was not found: the finding says what is known, and where to look.",
        ERRORS - kinds("lost_mismatch"),
        yields_to=("CT1", "CT2", "CT3", "CT4", "CT5", "CT6", "CT7", "CT8"),
        # No example: with the text of the program, every script of the collection has a cause.
    ),
)  # fmt: skip
"""The causes in use, by code."""

COVERED: Final[Mapping[str, Mapping[str, str]]] = {
    "CT102": {"CT101": "rank-condition", "CT416": "decided-at-root"},
    "CT104": {"CT319": "caught-error"},
    "CT106": {"CT105": "other-function", "CT107": "iteration-order"},
    "CT201": {"CT202": "join-unanswered", "CT203": "join-on-some-ranks", "CT206": "own-join-hook"},
    "CT302": {
        "CT301": "busy-elsewhere", "CT303": "died", "CT304": "never-started",
        "CT305": "stopped-process", "CT312": "left-job", "CT313": "left-by-exit",
        "CT314": "thread-ended",
    },
    "CT309": {"CT308": "came-late"},
    "CT403": {
        "CT401": "other-dtype", "CT402": "half-precision", "CT404": "ragged-batch",
        "CT405": "other-reduce-op", "CT406": "other-root", "CT409": "other-batching",
        "CT410": "object-lists", "CT411": "other-shape", "CT415": "root-of-own-number",
        "CT513": "framework-arguments",
    },
    "CT407": {"CT408": "splits-changed"},
    "CT502": {"CT501": "model-sizes-differ", "CT506": "other-model", "CT512": "resharding-differs"},
    "CT503": {"CT507": "call-among-frameworks"},
    "CT505": {"CT509": "cut-out-of-the-graph", "CT515": "gradients-left-out"},
    "CT508": {"CT504": "no-sync-boundaries"},
    "CT602": {"CT601": "other-group"},
    "CT606": {"CT605": "opposite-group-order"},
    "CT701": {"CT711": "message-and-collective"},
    "CT704": {"CT709": "sender-left"},
    "CT705": {"CT706": "group-rank-as-peer"},
    "CT707": {"CT713": "received-from-any"},
    "CT801": {"CT802": "others-held-at-entry", "CT803": "computed-once"},
    "CT901": {"CT607": "repeated"},
    "CT951": {
        "CT952": "unexplained-dtype-mismatch", "CT953": "unexplained-shape-mismatch",
        "CT954": "unexplained-reduce-op-mismatch", "CT955": "unexplained-root-mismatch",
        "CT956": "unexplained-split-mismatch", "CT957": "unexplained-role-mismatch",
        "CT958": "unexplained-group-mismatch", "CT959": "unexplained-missing-call",
        "CT960": "unexplained-p2p-unmatched", "CT961": "unexplained-p2p-mismatch",
        "CT962": "unexplained-deadlock", "CT963": "unexplained-stall",
    },
}  # fmt: skip
"""Retired codes with their names, by the code that covers them. They stay to prevent reuse."""
