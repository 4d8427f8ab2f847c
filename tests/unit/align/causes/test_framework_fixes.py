"""What a framework asks for: each row of the table where it speaks, and a look-alike without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.causes import choose, frameworks
from collectrace.align.causes.framework_fixes import TABLE, Fix
from collectrace.align.causes.situation import Situation
from collectrace.align.deciding import named
from collectrace.align.judging.judge import judge
from collectrace.findings import Kind
from collectrace.records import Stack
from collectrace.roles import ROLES
from tests.support.judging import case_of
from tests.support.kind_examples import steps, waits
from tests.support.synthetic import Rank, Run
from tests.unit.align.deciding.program import Program

BUCKET: dict[str, Any] = {"role": "ddp.backward.bucket", "shape": [27], "site": "/job/train.py:21"}
AT = "/job/eval.py:7"


@dataclass
class Told:
    """The first error of a run, and what is said of it."""

    kind: Kind
    suspects: tuple[int, ...]
    cause: str
    fix: str


def first(run: Run, folder: Path) -> Told:
    case = case_of(run, folder)
    judged = judge(case)
    pairs = zip(judged, named.find_decisions(case, judged), strict=True)
    candidate, decided = next(pair for pair in pairs if pair[0].severity == "error")
    situation = Situation(case, candidate, decided.decisions, decided.pair)
    found = choose.cause_of(situation)
    assert found is not None
    words = found.cause.words(situation, found.data)
    words = frameworks.apply_fix(situation, found.cause.code, words)
    why = " ".join((*words.why, *words.notes))
    return Told(candidate.kind, situation.suspects, why, "\n".join(words.fixes))


def row(role: str, when: str = "some ranks", path: str = "", *, whole: bool = False) -> Fix:
    """The only row about a role, in a reason."""
    found = [
        fix
        for fix in TABLE
        if any(role == one or (one.endswith(".") and role.startswith(one)) for one in fix.roles)
        and when in fix.when
        and fix.path == path
        and fix.whole_forward == whole
        and not fix.condition
    ]
    assert len(found) == 1, (role, when, path, found)
    return found[0]


def alone(path: Sequence[str] = (), others: dict[str, Any] = BUCKET, **fields: Any) -> Run:
    """Rank 2 alone makes a call, where the others go on otherwise."""
    run = steps(3)
    for rank in run:
        here = {"site": AT, **fields} if rank.rank == 2 else dict(others)
        if path and rank.rank == 2:
            rank.record(Stack(stack=1, frames=[f"{AT} main"], path=list(path)))
            here["stack"] = 1
        waits(rank, here.pop("op", "all_reduce"), **here)
    return run


def says(fix: Fix, found: Told) -> bool:
    return fix.text in found.fix


# -- calls that some ranks made ---------------------------------------------------------------

ASKED = sorted(
    name
    for name, role in ROLES.items()
    if role.is_asked and any(fix.path == "" and name in fix.roles for fix in TABLE)
)


@pytest.mark.parametrize("role", ASKED)
def test_a_call_that_one_rank_alone_asked_for(role: str, tmp_path: Path) -> None:
    found = first(alone(op="barrier", role=role), tmp_path)
    assert says(row(role), found)
    assert found.suspects == (2,)
    # Nothing else that would be wrong here is advised beside it.
    assert "find_unused_parameters" not in found.fix
    assert "join()" not in found.fix


@pytest.mark.parametrize("role", ASKED)
def test_a_call_of_the_scripts_own_beside_it_is_not_the_frameworks(
    role: str, tmp_path: Path
) -> None:
    """Rank 2 makes a call of its own where the others make the framework's."""
    others = {"op": "all_gather", "role": role, "site": "/job/train.py:21"}
    found = first(alone(op="barrier", others=others), tmp_path)
    assert found.suspects == (2,)
    assert not any(says(fix, found) for fix in TABLE)


@pytest.mark.parametrize("role", ASKED)
def test_a_framework_on_every_rank_leaves_other_reasons_alone(role: str, tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        dtype = "float64" if rank.rank == 2 else "float32"
        waits(rank, "all_reduce", role=role, dtype=dtype, site=AT)
    found = first(run, tmp_path)
    assert found.kind == "dtype_mismatch"
    assert not any(says(fix, found) for fix in TABLE)


ON_THE_WAY: list[tuple[str, dict[str, Any]]] = [
    ("dtensor.redistribute", {}),
    ("dtensor.loss", {}),
    ("syncbn.forward", {}),
    ("trainer.gather", {}),
    ("trainer.checkpoint", {}),
]


@pytest.mark.parametrize(("role", "fields"), ON_THE_WAY)
def test_what_is_issued_on_the_way_through_a_module(
    role: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    found = first(
        alone(
            op="all_reduce",
            role=role,
            others={"op": "barrier", "site": "/job/train.py:21"},
            **fields,
        ),
        tmp_path,
    )
    assert says(row(role), found)


def test_two_parts_of_frameworks_get_the_fix_of_neither(tmp_path: Path) -> None:
    """As where a flag that a framework reads was set on one rank: it goes on otherwise there."""
    run = steps(2)
    for rank in run:
        role = "lightning.checkpoint" if rank.rank else "lightning.log"
        waits(rank, "broadcast" if rank.rank else "all_reduce", role=role, site=AT)
    found = first(run, tmp_path)
    assert found.suspects == ()
    assert not any(says(fix, found) for fix in TABLE)


@pytest.mark.parametrize(("role", "fields"), ON_THE_WAY)
def test_what_the_script_met_on_the_way_tells_no_framework(
    role: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    """Rank 2 alone has a barrier of its own; the others are in the framework's forward."""
    others = {"op": "all_reduce", "role": role, "site": "/job/train.py:21", **fields}
    assert not any(
        says(fix, first(alone(op="barrier", others=others), tmp_path / "run")) for fix in TABLE
    )


LED_TO = [
    ("lightning.broadcast", "Trainer.log_dir", ["Trainer.log_dir", "DDPStrategy.broadcast"]),
    ("lightning.log", "ProgressBar.get_metrics", ["Trainer.fit", "ProgressBar.get_metrics"]),
    ("fsdp.unshard", "GenerationMixin.generate", ["GenerationMixin.generate", "FSDP.forward"]),
    ("deepspeed.fetch", "GenerationMixin.generate", ["GenerationMixin.generate"]),
]


@pytest.mark.parametrize(("role", "function", "path"), LED_TO)
def test_a_function_that_led_to_the_call(
    role: str, function: str, path: list[str], tmp_path: Path
) -> None:
    fields: dict[str, Any] = {"op": "broadcast", "role": role, "part": "0"}
    others = BUCKET
    fix = row(role, path=function)
    assert says(fix, first(alone(path, others, **fields), tmp_path / "led"))
    assert not says(fix, first(alone(["Trainer.fit"], others, **fields), tmp_path / "other"))
    assert not says(fix, first(alone((), others, **fields), tmp_path / "none"))


CONDITION = """\
for batch in loader:
    dist.barrier()  # FIRST
    {text}
        dist.all_reduce(metric)  # METRIC
    dist.all_reduce(loss)  # LOSS
"""


@pytest.mark.parametrize(("text", "speaks"), [
    ("if self.is_world_process_zero():", True),
    ("if rank == 0:", False),
    ("if flag:", False),
])  # fmt: skip
def test_a_metric_reduced_where_the_trainer_asks_for_the_rank(
    text: str, speaks: bool, tmp_path: Path
) -> None:
    fix = next(fix for fix in TABLE if "user" in fix.roles)
    program = Program(tmp_path, CONDITION.format(text=text), 3)
    for rank in range(3):
        program.call(rank, "barrier", ("FIRST", "<module>"))
        one = program.run.rank(rank)
        mark, shape = ("METRIC", [1]) if rank == 0 else ("LOSS", [2])
        one.stuck_in(program.call(rank, "all_reduce", (mark, "<module>"), shape=shape))
    assert says(fix, first(program.run, tmp_path / "logs")) == speaks


# -- a forward of some ranks' own, and a module that was left out -----------------------------


TRAINS, EVALUATES = "/job/train.py:9", "/job/train.py:24"


def gather(rank: Rank, layer: str, site: str, stack: int, family: str) -> None:
    rank.call("all_gather_single", role=f"{family}.unshard", part=layer, shape=[34], site=site,
              stack=stack)  # fmt: skip


def reduce(rank: Rank, layer: str, family: str) -> None:
    # Of one size each: the layers differ.
    rank.call("reduce_scatter_single", role=f"{family}.reduce_scatter", part=layer,
              shape=[68 + int(layer)], site=TRAINS, stack=1)  # fmt: skip


def sharded(
    evaluating: int | None = None,
    layers: str = "012",
    *,
    cut: int | None = None,
    family: str = "fsdp",
) -> Run:
    """Sharded training of three layers; a rank runs some once more, or cuts one out of the loss."""
    run = Run(3)
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{TRAINS} main"]))
        rank.record(Stack(stack=2, frames=[f"{EVALUATES} evaluate", "/job/train.py:12 main"]))
        for step in range(5):
            for layer in "012":
                gather(rank, layer, TRAINS, 1, family)
            for layer in "210":
                if (rank.rank, step, layer) != (cut, 3, "1"):
                    reduce(rank, layer, family)
            for layer in layers if (rank.rank, step) == (evaluating, 3) else "":
                gather(rank, layer, EVALUATES, 2, family)
        rank.exit()
    return run


FAMILIES = ("fsdp", "fsdp_one")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_forward_of_one_rank(family: str, tmp_path: Path) -> None:
    found = first(sharded(0, family=family), tmp_path)
    assert found.suspects == (0,)
    assert says(row(f"{family}.unshard", whole=True), found)
    assert not says(row(f"{family}.unshard", "modules"), found)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_module_alone_is_no_whole_forward(family: str, tmp_path: Path) -> None:
    found = first(sharded(0, "1", family=family), tmp_path)
    assert not says(row(f"{family}.unshard", whole=True), found)


def test_what_only_fully_shard_knows_is_not_advised_for_the_older_one(tmp_path: Path) -> None:
    for layers in ("012", "1"):
        found = first(sharded(0, layers, family="fsdp_one"), tmp_path / layers)
        assert "set_reduce_scatter_unused_params" not in found.fix
        assert "get_model_state_dict" not in found.fix


def test_a_module_that_was_cut_out_of_the_loss(tmp_path: Path) -> None:
    found = first(sharded(cut=2), tmp_path)
    assert found.suspects == (2,)
    assert "On rank 2 none came (train.py:9): its parameters are frozen there" in found.cause
    assert "times zero" in found.fix
    assert not any(says(fix, found) for fix in TABLE)


# -- sizes -----------------------------------------------------------------------------------

SIZES = [
    ("fsdp.unshard", "layers.1"),
    ("fsdp_one.unshard", "1 Linear"),
    ("fsdp.reduce_scatter", "layers.1"),
    ("fsdp.all_reduce", "layers.1"),
    ("accelerate.gather", None),
    ("accelerate.gather_for_metrics", None),
    ("accelerate.reduce", None),
    ("lightning.all_gather", None),
    ("dtensor.redistribute", None),
    ("ddp.forward.sync_buffers", None),
    ("torchmetrics.sync", "BoxQuality"),
]


def sizes(role: str, part: str | None, other: str | None) -> Run:
    run = steps(3)
    for rank in run:
        odd = rank.rank == 2
        waits(rank, "all_gather_single", role=role, part=other if odd else part,
              shape=[3 if odd else 2], site=AT)  # fmt: skip
    return run


@pytest.mark.parametrize(("role", "part"), SIZES)
def test_sizes_that_differ_in_one_part(role: str, part: str | None, tmp_path: Path) -> None:
    found = first(sizes(role, part, part), tmp_path)
    fix = row(role, "sizes")
    assert found.kind == "shape_mismatch"
    assert found.fix == fix.text


@pytest.mark.parametrize(("role", "part"), [pair for pair in SIZES if pair[1]])
def test_sizes_of_two_parts_prove_nothing_of_one(role: str, part: str, tmp_path: Path) -> None:
    found = first(sizes(role, part, "another"), tmp_path)
    assert not says(row(role, "sizes"), found)


def test_sizes_of_the_scripts_own_calls(tmp_path: Path) -> None:
    found = first(sizes("user", None, None), tmp_path)
    assert not any(says(fix, found) for fix in TABLE)


# -- inputs that ran out ----------------------------------------------------------------------


@pytest.mark.parametrize("role", ["accelerate.gather_for_metrics", "lightning.log", "user"])
def test_inputs_that_ran_out(role: str, tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        most = 4 if rank.rank == 0 else 6
        for n in range(most):
            rank.batch(n)
            rank.call("all_gather", role=role, site="/job/train.py:9")
        rank.batch(most, end=True)
        rank.exit()
    found = first(run, tmp_path)
    assert "Uneven inputs" in found.cause
    told = {fix.text for fix in TABLE if says(fix, found)}
    assert told == (set() if role == "user" else {row(role, "uneven").text})


@pytest.mark.parametrize("call", ["trainer.train(resume_from_checkpoint=last)", "trainer.train()"])
def test_a_trainer_that_may_have_resumed_on_some_ranks_only(call: str, tmp_path: Path) -> None:
    """It counts the items of each batch over all ranks, which join() would not answer."""
    source = tmp_path / "train.py"
    source.write_text(f"{call}\n")
    run = Run(2)
    for rank in run:
        most, at = (4, 6)[rank.rank], dict[str, Any](site=f"{source}:1")
        for n in range(most):
            rank.batch(n + 1)
            rank.call("all_gather", role="trainer.num_items", **at)
            rank.call("all_reduce", role="ddp.backward.bucket", shape=[10], iteration=n, **at)
        rank.batch(most, end=True)
        if rank.rank == 0:
            rank.call("all_gather", role="trainer.flops", **at)
        rank.exit()
    found = first(run, tmp_path / "run")
    assert "Uneven inputs: rank 0 had 4 batches" in found.cause
    assert "join()" not in found.fix
    fix = next(one for one in TABLE if one.condition == "resume_from_checkpoint")
    assert says(fix, found) == (fix.condition in call)
    assert ("DistributedSampler" in found.fix) != says(fix, found)


# -- threads, messages, waits beside all collectives -------------------------------------------


def threads(role: str) -> Run:
    run = steps(2)
    saver: dict[str, Any] = {"role": role, "thread": "AsyncCheckpointExecutor_0", "site": AT}
    for rank in run:
        calls = [("all_gather", saver), ("all_reduce", {"site": "/job/train.py:9"})]
        for op, fields in calls[:: 1 if rank.rank else -1]:
            rank.call(op, **fields)
        rank.exit()
    return run


def test_a_checkpoint_thread_on_the_group_of_training(tmp_path: Path) -> None:
    fix = row("dcp.plan", "threads")
    assert first(threads("dcp.plan"), tmp_path / "dcp").fix == fix.text
    assert not says(fix, first(threads("user"), tmp_path / "user"))


def messages(role: str) -> Run:
    run = steps(2)
    for n in range(3):
        run.rank(0).send(1, role=role, part=f"stage 0, microbatch {n}")
        if n < 2:
            run.rank(1).recv(0, role=role, part=f"stage 1, microbatch {n}")
    run.rank(0).beat(30)
    run.rank(1).exit()
    return run


def test_messages_of_a_pipeline_that_do_not_come_out_even(tmp_path: Path) -> None:
    fix = row("pp.forward", "messages")
    found = first(messages("pp.forward"), tmp_path / "pipeline")
    assert found.fix.startswith(fix.text)
    assert not says(fix, first(messages("user"), tmp_path / "own"))


def sizes_of_messages(role: str, received: str = "stage 1, microbatch 0") -> Run:
    run = steps(2)
    run.rank(0).send(1, role=role, part="stage 0, microbatch 0", shape=[2, 8])
    run.rank(1).recv(0, role=role, part=received, shape=[4, 8])
    run.finish()
    return run


def test_a_microbatch_of_another_size(tmp_path: Path) -> None:
    fix = row("pp.forward", "message sizes")
    found = first(sizes_of_messages("pp.forward"), tmp_path / "pipeline")
    assert (found.kind, found.fix) == ("p2p_mismatch", fix.text)
    other = first(sizes_of_messages("pp.forward", "stage 1, microbatch 1"), tmp_path / "other")
    assert other.fix == row("pp.forward", "messages").text
    assert not says(fix, first(sizes_of_messages("user"), tmp_path / "own"))


# -- roots ------------------------------------------------------------------------------------


def consolidated(to: Sequence[int], role: str = "zero.consolidate") -> Run:
    """Each rank broadcasts from all but the rank it was given, until they do not agree."""
    run = steps(len(to))
    asked = [[root for root in range(len(to)) if root != own] for own in to]
    last = next(n for n, roots in enumerate(zip(*asked, strict=True)) if len(set(roots)) > 1)
    for rank, roots in zip(run, asked, strict=True):
        for root in roots[:last]:
            rank.call("broadcast", root=root, role=role, site=AT)
        waits(rank, "broadcast", root=roots[last], role=role, site=AT)
    return run


def test_a_state_that_each_rank_asks_for_itself(tmp_path: Path) -> None:
    found = first(consolidated([0, 1, 2]), tmp_path)
    assert (found.kind, found.suspects) == ("root_mismatch", ())
    assert found.fix == row("zero.consolidate", "roots").text
    assert "ambiguous" not in found.cause


def test_a_state_that_one_rank_asks_for_itself(tmp_path: Path) -> None:
    found = first(consolidated([2, 1, 2, 2]), tmp_path)
    assert found.suspects == (1,)
    assert "own number" not in found.cause


RAY = "/lib/site-packages/ray/train/v2/api/train_fn_utils.py:125 report"


@pytest.mark.parametrize(("frame", "speaks"), [
    (RAY, True), ("/job/report.py:5 report", False), (RAY.replace("report", "get_context"), False),
])  # fmt: skip
def test_a_worker_that_waits_in_a_report(frame: str, speaks: bool, tmp_path: Path) -> None:
    run = steps(2)
    own = "/job/train.py:13 train"
    run.rank(0).stall(stacks={"TrainingThread (140)": [own, frame]})
    run.rank(0).beat(60)
    rank = run.rank(1)
    call = rank.call("all_reduce", **BUCKET)
    rank.beat(60, rank.inside(call))
    found = first(run, tmp_path)
    assert found.suspects == (0,)
    fix = next(fix for fix in TABLE if "elsewhere" in fix.when)
    assert (found.fix == fix.text) == speaks
    assert ("It waits in ray.train.report() (train.py:13)" in found.cause) == speaks


def test_every_row_has_an_example_here() -> None:
    spoken = [row(role) for role in ASKED] + [row(role) for role, _ in ON_THE_WAY]
    spoken += [row(role, "sizes") for role, _ in SIZES]
    spoken += [row(role, path=function) for role, function, _ in LED_TO]
    spoken += [row(f"{family}.unshard", whole=True) for family in FAMILIES]
    spoken += [row("dcp.plan", "threads"), row("deepspeed.fetch", "modules")]
    spoken += [row(f"{family}.unshard", "modules") for family in FAMILIES]
    spoken += [row("pp.forward", "messages"), row("pp.forward", "message sizes")]
    spoken += [row("zero.consolidate", "roots"), row("lightning.log", "uneven")]
    spoken += [row("accelerate.gather", "uneven")]
    spoken += [fix for fix in TABLE if fix.condition or "elsewhere" in fix.when]
    assert {fix.text for fix in TABLE} == {fix.text for fix in spoken}


def test_the_roles_of_the_table_exist() -> None:
    for fix in TABLE:
        for role in fix.roles:
            assert role in ROLES or (
                role.endswith(".") and any(name.startswith(role) for name in ROLES)
            )
