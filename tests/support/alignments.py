"""Answers by hand, as the aligner gives them: what the reports are tested with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collectrace.findings import (
    Alignment,
    BlindSpot,
    Decision,
    DecisionSide,
    Evidence,
    EvidenceRow,
    Excerpt,
    ExcerptLine,
    Finding,
    GroupInfo,
    InternalError,
    Job,
    LineOfRanks,
    OtherLines,
    RankStack,
    RankState,
    Side,
    SourceLine,
    Table,
    TableRow,
)
from collectrace.records import Call


def call(seq: int, op: str = "all_reduce", **fields: Any) -> Call:
    if op == "all_reduce":
        fields = {"dtype": "float32", "shape": [1], "reduce_op": "SUM"} | fields
    fields = {"group": "0", "device": "cpu", "site": "train.py:41"} | fields
    return Call(seq=seq, op=op, **fields)


def default_group(world: int) -> GroupInfo:
    return GroupInfo(
        name="0",
        description="default_pg",
        backend="cpu:gloo,cuda:gloo",
        ranks=tuple(range(world)),
    )


def join_with_barrier() -> Alignment:
    """Case 4 of tools/join_cases.py with a barrier that holds zero."""
    loop = "train.py:38"
    shadow = {"site": loop}
    left = [
        call(25, site="train.py:43"),
        call(26, role="join.count_nonjoined", **shadow),
        call(27, role="join.sync_check", **shadow),
        call(28, role="join.bucket", shape=[2], **shadow),
        call(29, role="join.count_nonjoined", **shadow),
        call(30, role="join.common_rank", dtype="int64", reduce_op="MAX", **shadow),
        None,
    ]
    right = [
        call(25, site="train.py:43"),
        call(26, role="ddp.forward.notify_join"),
        call(27, role="ddp.forward.sync_check"),
        call(28, role="ddp.backward.bucket", shape=[2], site="train.py:42"),
        call(29, site="train.py:43"),
        call(30, role="join.count_nonjoined", **shadow),
        call(31, role="join.common_rank", dtype="int64", reduce_op="MAX", **shadow),
    ]
    marks = {29: "root", 30: "fatal"}
    table = Table(
        columns=((0,), (1,)),
        rows=tuple(
            TableRow(seq=seq, cells=cells, mark=marks.get(seq, ""))  # type: ignore[arg-type]
            for seq, cells in enumerate(zip(left, right, strict=True), start=25)
        ),
    )
    sources = (
        SourceLine(site="train.py:43", text="            dist.barrier()"),
        SourceLine(site=loop, text="    with model.join():"),
    )
    root = Finding(
        kind="role_mismatch",
        severity="error",
        headline="rank 1's all_reduce at train.py:43 meets join()'s count of the ranks that "
        "still have inputs on rank 0",
        cause="Rank 0 ran out of inputs after 5 batches and shadows, inside join(), the "
        "collectives of DDP; rank 1 has a sixth batch and issues a collective of its own, which "
        "join() does not know of and cannot shadow. The bytes fit, the meaning does not: every "
        "later call of rank 1 pairs with the wrong one.",
        fix="Move the call at train.py:43 out of the `with model.join():` block, or give every "
        "rank the same number of batches (drop_last=True, DistributedSampler).",
        group=default_group(2),
        seq=29,
        sides=(
            Side(ranks=(0,), call=left[4], state="raised"),
            Side(ranks=(1,), call=right[4], state="died"),
        ),
        suspects=(1,),
        notes=("Iteration 6; the 4th call of a loop that repeats every 4 calls.",),
        table=table,
        sources=sources,
    )
    fatal = Finding(
        kind="dtype_mismatch",
        severity="error",
        headline="int64 meets float32: join()'s choice of the authoritative rank on rank 0, its "
        "count on rank 1",
        cause="Rank 1 is one call behind from the row above on.",
        fix="Mend the cause above.",
        group=default_group(2),
        seq=30,
        sides=(
            Side(ranks=(0,), call=left[5], state="raised"),
            Side(ranks=(1,), call=right[5], state="died"),
        ),
        suspects=(1,),
        caused_by=0,
    )
    uneven = Finding(
        kind="uneven_inputs",
        severity="info",
        headline="rank 0 saw 5 batches, rank 1 saw 6",
        cause="The inputs are not divided evenly.",
        fix="",
    )
    return Alignment(
        status="diverged",
        run="20260116-093000-f00d",
        world_size=2,
        findings=(root, fatal, uneven),
        ranks=(
            RankState(
                rank=0,
                state="raised",
                ended="exit",
                last_call=left[5],
                detail="RuntimeError: Connection closed by peer [127.0.0.1]:4711",
            ),
            RankState(rank=1, state="died", ended="gone", last_call=right[6]),
        ),
        evidence=Evidence(agreed=28),
    )


def all_agree() -> Alignment:
    return Alignment(
        status="aligned",
        run="20260116-093000-f00d",
        world_size=2,
        ranks=tuple(
            RankState(rank=r, state="finished", ended="exit", last_call=call(1234))
            for r in range(2)
        ),
        evidence=Evidence(agreed=1234),
    )


def agreed_from_different_lines() -> Alignment:
    lines = (
        LineOfRanks(ranks=(0,), site="/job/eval.py:17"),
        LineOfRanks(ranks=(1,), site="/job/eval.py:21"),
    )
    other = OtherLines(group="0", count=8, seq=5, lines=lines)
    return replace(all_agree(), evidence=Evidence(agreed=1234, other_lines=(other,)))


def missing_call() -> Alignment:
    """Eight ranks; two of them took another branch and wait at the next collective."""
    here = call(4711, shape=[1024, 1024], dtype="bfloat16", site="/home/ann/run/loop.py:88")
    rows = [
        TableRow(seq=n, cells=(call(n, site="/home/ann/run/loop.py:80"),) * 2) for n in (4709, 4710)
    ]
    waits = (0, 1, 2, 4, 5, 7)
    return Alignment(
        status="hung",
        run="20260116-093000-f00d",
        world_size=8,
        findings=(
            Finding(
                kind="missing_call",
                severity="error",
                headline="ranks 3,6 never came to all_reduce, call 4711 of the default group",
                cause="Ranks 3,6 raised before it; the others wait for them.",
                fix="Mend the exception on ranks 3,6: it is in their logs, and below.",
                group=default_group(8),
                seq=4711,
                sides=(
                    Side(ranks=waits, call=here, state="blocked"),
                    Side(ranks=(3, 6), call=None, state="raised"),
                ),
                suspects=(3, 6),
                table=Table(
                    columns=(waits, (3, 6)),
                    rows=(*rows, TableRow(seq=4711, cells=(here, None), mark="root")),
                ),
                sources=(
                    SourceLine(site="/home/ann/run/loop.py:88", text="dist.all_reduce(grad)"),
                ),
            ),
        ),
        ranks=tuple(
            RankState(rank=r, state="blocked", ended="alive", last_call=here)
            if r in waits
            else RankState(
                rank=r,
                state="raised",
                ended="exit",
                last_call=call(4710, site="/home/ann/run/loop.py:80"),
                detail="ValueError: loss is nan at /home/ann/run/loop.py:85",
            )
            for r in range(8)
        ),
        evidence=Evidence(agreed=4710, other_runs=("20260114-070000-0001", "20260115-070000-0002")),
        job=Job(
            script="train.py --lr 0.1 --data '/data/web text'",
            hosts=("node1", "node2"),
            began=1_768_555_800_000_000_000,
            ended=1_768_558_325_000_000_000,
            attempt=2,
            earlier=("attempt 1 ended: rank 5 raised ValueError (--run 20260115-070000-0002)",),
        ),
    )


def not_enough() -> Alignment:
    """A healthy job of which two logs are gone."""
    return Alignment(
        status="unknown",
        run="20260116-093000-f00d",
        world_size=4,
        findings=(
            Finding(
                kind="evidence_gap",
                severity="info",
                headline="ranks 2-3 left no log",
                cause="Their files were not copied, or they never started.",
                fix="Collect the files of every rank.",
            ),
        ),
        ranks=tuple(
            RankState(rank=r, state="running", ended="alive", last_call=call(77))
            if r < 2
            else RankState(rank=r, state="missing", ended="gone")
            for r in range(4)
        ),
        evidence=Evidence(missing_ranks=(2, 3), damaged_lines=1, notes=("rank 0: rotated.",)),
    )


def nested_consequences() -> Alignment:
    """A deadlock across two groups, what it led to, and a warning beside it."""
    tp = GroupInfo(name="3", description="tp", backend="nccl", ranks=(0, 1))
    here = call(12, group="3", site="layers.py:9", shape=[512])
    there = call(7, "broadcast", site="sync.py:4", dtype="float32", shape=[1], root=0)
    gather = call(5, "all_gather", site="eval.py:31", dtype="int64", shape=[3], out_shape=[[3]] * 2)
    return Alignment(
        status="hung",
        run="20260116-093000-f00d",
        world_size=2,
        findings=(
            Finding(
                kind="deadlock",
                severity="error",
                headline="rank 0 waits in group tp for rank 1, which waits in the default group "
                "for rank 0",
                cause="The ranks enter the two groups in opposite order.",
                fix="Enter them in the same order on every rank:\n"
                "    dist.broadcast(flag, 0)\n"
                "    dist.all_reduce(x, group=tp)",
                group=tp,
                seq=12,
                sides=(
                    Side(ranks=(0,), call=here, state="blocked"),
                    Side(ranks=(1,), call=there, state="blocked"),
                ),
            ),
            Finding(
                kind="missing_call",
                severity="error",
                headline="rank 1 never came to all_gather",
                cause="It is blocked above.",
                fix="",
                seq=5,
                caused_by=0,
            ),
            Finding(
                kind="raised",
                severity="warning",
                headline="rank 0 raised a timeout",
                cause="Its collective never completed.",
                fix="",
                caused_by=1,
            ),
            Finding(
                kind="shape_mismatch",
                severity="warning",
                headline="the ranks gather the same bytes in another shape",
                cause="Values land in other places than they came from.",
                fix="Reshape before the call.",
                group=default_group(2),
                seq=5,
                sides=(Side(ranks=(0, 1), call=gather, state="blocked"),),
            ),
        ),
        ranks=(
            RankState(rank=0, state="blocked", ended="alive", last_call=here),
            RankState(
                rank=1, state="blocked", ended="signal", last_call=there, detail="for 61 s in wait"
            ),
        ),
        evidence=Evidence(agreed=19, dropped=2),
    )


def with_a_blind_spot() -> Alignment:
    """Ranks that agree, as far as their records go."""
    spot = BlindSpot(name="deep_ep", ranks=(0, 1), how="was loaded", what="dispatch")
    alignment = agreed_from_different_lines()
    return replace(alignment, evidence=replace(alignment.evidence, blind_spots=(spot,)))


def with_an_internal_error() -> Alignment:
    fault = InternalError(
        part="explanation", error="KeyError", site="collectrace/align/causes/choose.py:7"
    )
    return replace(missing_call(), internal_errors=(fault,))


def with_decisions() -> Alignment:
    """The missing call, led to by a condition that values confirm, or by a loop."""
    alignment = missing_call()
    nan = {"type": "Tensor", "dtype": "float32", "shape": [], "value": "nan"}
    condition = Decision(
        site="train.py:40",
        text="if loss.isfinite():",
        function="Trainer.step",
        sides=(
            DecisionSide(rank=3, did="not_taken", values={"loss": nan, "self.step": 7}),
            DecisionSide(rank=0, did="taken", values={"loss": nan | {"value": 1.0}}),
        ),
        depends_on=("data",),
        strength="confirmed",
        read_later=("batch",),
    )
    loop = Decision(
        site="train.py:38",
        text="for batch in loader:",
        function="Trainer.train",
        sides=(
            DecisionSide(rank=3, did="ended"),
            DecisionSide(rank=3, did=None),
        ),
        depends_on=("data", "unknown"),
        strength="possible",
    )
    first = replace(alignment.findings[0], decisions=(condition, loop))
    return replace(alignment, findings=(first, *alignment.findings[1:]))


def explained() -> Alignment:
    """A skipped call with all that a finding can have."""
    alignment = with_decisions()
    finding = alignment.findings[0]
    excerpt = (
        Excerpt(
            path="/job/train.py",
            function="main",
            lines=(
                ExcerptLine(
                    line=70, text="for step in range(10):", what="loop",
                    notes=("iteration 4 on every rank (`step` = 3)",),
                ),
                ExcerptLine(line=71, text="    trainer.step(batch)", what="call"),
            ),
        ),
        Excerpt(
            path="/job/train.py",
            function="Trainer.step",
            callers=("/job/train.py:51 Trainer.guarded",),
            lines=(
                ExcerptLine(
                    line=40, text="if loss.isfinite():", what="decision",
                    notes=("true on ranks 0-2,4-5,7", "false on ranks 3,6"),
                ),
                ExcerptLine(
                    line=41, text="    dist.all_reduce(loss)", what="call",
                    notes=("ranks 0-2,4-5,7 wait here (41 s): call 4711, all_reduce float32[]",),
                ),
            ),
        ),
        Excerpt(
            path="/env/site-packages/lightning/loop.py",
            function="Loop.run",
            library="lightning",
            lines=(ExcerptLine(line=9, text="if self.done:", what="decision"),),
        ),
    )  # fmt: skip
    evidence = (
        EvidenceRow(
            fact="minority",
            speaks="for",
            ranks=(3, 6),
            weight=2,
            sites=("train.py:40",),
            says="These ranks made another call than most.",
        ),
        EvidenceRow(fact="told_to", speaks="against", ranks=(6,), weight=1),
    )
    fixes = (
        "Decide together before line 40.",
        "Or call all_reduce on every rank.",
        "Raise on every rank.",
        "Never shown in short.",
    )
    where = (
        "/env/lib/python3.11/queue.py:171 get", "/job/data.py:31 Shards.__getitem__",
        *(f"/job/train.py:{n} fetch" for n in range(60, 68)),
    )  # fmt: skip
    stacks = (
        RankStack(ranks=(3,), frames=where, left="interrupt", held=41.0),
        RankStack(ranks=(6,), frames=("/job/train.py:73 <module>",), left="stall"),
    )
    whole = replace(
        finding, code="CT102", excerpt=excerpt, evidence=evidence, fixes=fixes,
        fix="\n".join(fixes), stacks=stacks,
    )  # fmt: skip
    return replace(alignment, findings=(whole, *alignment.findings[1:]))
