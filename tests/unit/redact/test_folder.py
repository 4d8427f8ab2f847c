"""Copies of whole folders: what they find, what they hold, and when there is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace import chain
from collectrace.align import align
from collectrace.errors import CollectraceError
from collectrace.findings import Alignment
from collectrace.records import Call, Checkpoint, decode
from collectrace.redact import folder as redacted
from collectrace.redact.lines import Lines
from collectrace.signature import extend
from tests.support.commands import run
from tests.support.flight_rings import Job
from tests.support.synthetic import Run, damage

SECRET: Final = "zqsecret"


def found(logs: Path, **options: Any) -> list[tuple[Any, ...]]:
    """What of an answer a copy must give as well."""
    alignment = align(logs, **options)
    return [alignment.status, *map(_finding, alignment.findings), _evidence(alignment)]  # type: ignore[list-item]


def _finding(one: Any) -> tuple[Any, ...]:
    calls = [(s.call.op, s.call.site.rpartition(":")[2]) if s.call else None for s in one.sides]
    return one.kind, one.severity, one.suspects, one.seq, one.code, calls


def _evidence(alignment: Alignment) -> tuple[Any, ...]:
    evidence = alignment.evidence
    return evidence.agreed, evidence.messages, evidence.damaged_lines, evidence.missing_ranks


def secretive(**options: Any) -> Run:
    """A run whose every text that is a user's holds a secret; rank 1 goes another way at last."""
    job = Run(
        world=3, host=f"{SECRET}.example", cwd=f"/home/{SECRET}", texts=False,
        argv=[f"/home/{SECRET}/train.py", "--key", SECRET],
        env={"NCCL_SOCKET_IFNAME": SECRET}, versions={"torch": f"2.13.0+{SECRET}"}, **options,
    )  # fmt: skip
    job.group(f"{SECRET}_group", [0, 1, 2], description=f"{SECRET} mesh")
    return job


def module(name: str) -> dict[str, Any]:
    return {
        "role": "fsdp.unshard", "part": f"{SECRET}.{name}", "shape": [4], "out_shape": [12],
        "site": f"/home/{SECRET}/model_{SECRET}.py:{len(name)}",
    }  # fmt: skip


def train(job: Run, steps: int) -> Run:
    for step in range(steps):
        for name in ("a", "bb"):
            job.all("all_gather_single", **module(name))
        job.all("all_reduce", f"{SECRET}_group", site=f"/home/{SECRET}/train.py:{step % 3 + 1}")
    return job


def end_apart(job: Run) -> Run:
    """The first two ranks gather one module, the last one another."""
    for rank in job:
        rank.call("all_gather_single", **module("a" if rank.rank < 2 else "bb"))
    for rank in job:
        error = f"{SECRET}: connection closed by peer at /home/{SECRET}/x.csv"
        rank.exit("exception", error="RuntimeError", message=error)
    return job


def held(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_text(errors="replace") for path in files]
    return "\n".join([*texts, *(str(path.relative_to(folder)) for path in files)])


def test_a_copy_finds_the_same_and_holds_no_secret(tmp_path: Path) -> None:
    logs = end_apart(train(secretive(name="20260101-000000-abcdef"), 5)).write(tmp_path / "logs")
    status, out, err = run("redact", str(logs.parent), "-o", str(tmp_path / "shared"))
    assert (status, err) == (0, "")
    assert "3 files" in out
    assert SECRET not in held(tmp_path / "shared")
    assert found(tmp_path / "shared") == found(logs.parent)
    assert found(tmp_path / "shared", full=True)[1][0] != "evidence_gap"


@pytest.mark.parametrize("segment", [None, 6_000])
def test_digests_fit_the_new_names_behind_lost_segments_too(
    segment: int | None, tmp_path: Path
) -> None:
    """Each rank has lost other segments."""
    job = train(secretive(checkpoint=3_000, segment=segment, keep=3 if segment else None), 150)
    logs = end_apart(job).write(tmp_path / "logs")
    if segment:
        first = sorted(logs.glob("rank00000.*.jsonl"))
        first[0].unlink()
    run("redact", str(logs), "-o", str(tmp_path / "shared"))
    shared = tmp_path / "shared"
    assert SECRET not in held(shared)
    before, after = found(logs), found(shared)
    assert before == after
    assert found(logs, full=True) == found(shared, full=True)
    old, new = digests(logs), digests(shared)
    assert old.keys() == new.keys()
    # Equal histories stay equal, on whichever rank, and others stay different.
    assert (
        len({*old.values()})
        == len({*new.values()})
        == len({*zip(old.values(), new.values(), strict=True)})
    )
    assert sum(old[key] != new[key] for key in old) > len(old) / 3


def digests(logs: Path) -> dict[tuple[str, int, int], int]:
    """By rank, group and number; each follows from the line and the digest before it."""
    found: dict[tuple[str, int, int], int] = {}
    groups: dict[str, int] = {}
    for path in sorted(logs.rglob("rank*.jsonl")):
        rank = path.name.partition(".")[0]
        for record in filter(None, map(decode, path.read_bytes().splitlines())):
            if isinstance(record, Checkpoint):
                rows = [(row[0], row[2], row[4]) for row in record.streams]
            elif isinstance(record, Call) and record.program is not None:
                rows = [(record.group, record.seq, record.program)]
            else:
                continue
            for group, seq, program in rows:
                number = groups.setdefault(group, len(groups))
                assert found.setdefault((rank, number, seq), program) == program
                before = 0 if seq == 1 else found.get((rank, number, seq - 1))
                if isinstance(record, Call) and before is not None:
                    assert extend(before, chain.step(record, "", None).program) == program
    return found


def test_damaged_and_torn_lines_stay_so(tmp_path: Path) -> None:
    logs = train(secretive(), 5).write(tmp_path / "logs")
    damage(logs / "rank00001.jsonl", 9, f'{{"kind":"call","{SECRET}'.encode())
    with (logs / "rank00002.jsonl").open("ab") as file:
        file.write(f'{{"kind":"{SECRET}","seq":5}}\n{{"{SECRET}'.encode())
    run("redact", str(logs), "-o", str(tmp_path / "shared"))
    assert SECRET not in held(tmp_path / "shared")
    assert found(tmp_path / "shared") == found(logs)


def test_fields_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    logs = train(secretive(), 1).write(tmp_path / "logs")
    file = logs / "rank00000.jsonl"
    file.write_text(file.read_text().replace('"kind":"call",', f'"kind":"call","x":"{SECRET}",'))
    run("redact", str(logs), "-o", str(tmp_path / "shared"))
    assert SECRET not in held(tmp_path / "shared")


def test_several_runs_packed_files_and_folders_of_hosts(tmp_path: Path) -> None:
    for name in ("20260101-000000-abcdef", f"{SECRET}-run"):
        end_apart(train(secretive(name=name), 2)).write(tmp_path / "logs" / f"node-{SECRET}")
    for file in tmp_path.rglob("rank00001.jsonl"):
        with gzip.open(f"{file}.gz", "wb") as out:
            out.write(file.read_bytes())
        file.unlink()
    status, _, _ = run("redact", str(tmp_path / "logs"), "-o", str(tmp_path / "shared"))
    assert status == 0
    assert SECRET not in held(tmp_path / "shared")
    assert len(list((tmp_path / "shared").rglob("rank*.jsonl"))) == 6
    for theirs, mine in ((f"{SECRET}-run", "run2"), ("20260101-000000-abcdef",) * 2):
        assert found(tmp_path / "shared", run=mine) == found(tmp_path / "logs", run=theirs)


def test_a_folder_of_dumps_becomes_rank_files(tmp_path: Path) -> None:
    job = Job(2)
    for ring in job:
        ring.call("all_reduce", [4])
    job.ring(0).call("all_reduce", [4], state="scheduled")
    job.write(tmp_path / "dumps")
    status, _, err = run("redact", str(tmp_path / "dumps"), "-o", str(tmp_path / "shared"))
    assert (status, err) == (0, "")
    assert [path.name for path in sorted((tmp_path / "shared").rglob("rank*"))] == [
        "rank00000.jsonl", "rank00001.jsonl",
    ]  # fmt: skip
    assert found(tmp_path / "shared") == found(tmp_path / "dumps")


def test_the_map_leads_back_and_is_its_owners(tmp_path: Path) -> None:
    logs = train(secretive(), 1).write(tmp_path / "logs")
    run("redact", str(logs), "-o", str(tmp_path / "s"), "--map", str(tmp_path / "map.json"))
    told = json.loads((tmp_path / "map.json").read_text())
    assert told["host1"] == f"{SECRET}.example"
    assert (tmp_path / "map.json").stat().st_mode & 0o777 == 0o600
    header = json.loads((tmp_path / "s" / "rank00000.jsonl").read_text().splitlines()[0])
    assert header["host"] == "host1"
    assert header["omitted"] == ["arguments", "values"]
    assert header["argv"] == ["command1"]
    assert told["command1"] == f"/home/{SECRET}/train.py --key {SECRET}"


def test_what_is_kept_stays(tmp_path: Path) -> None:
    logs = train(secretive(), 1).write(tmp_path / "logs")
    run("redact", str(logs), "-o", str(tmp_path / "s"), "--keep", "arguments,environment,messages")
    header = json.loads((tmp_path / "s" / "rank00000.jsonl").read_text().splitlines()[0])
    assert header["argv"][1:] == ["--key", SECRET]
    assert header["env"] == {"NCCL_SOCKET_IFNAME": SECRET}
    assert header["host"] == "host1"


def test_nothing_is_overwritten_and_nothing_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = train(secretive(), 1).write(tmp_path / "logs")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()
    (tmp_path / "map.json").touch()
    for arguments in (
        ("-o", str(tmp_path / "there")),
        ("-o", str(tmp_path / "logs" / "shared")),
        ("-o", str(tmp_path / "s"), "--map", str(tmp_path / "map.json")),
        ("-o", str(tmp_path / "s"), "--map", str(tmp_path / "s" / "map.json")),
        ("-o", str(tmp_path / "s"), "--keep", "everything"),
    ):
        status, out, err = run("redact", str(tmp_path / "logs"), *arguments)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
    monkeypatch.setattr(Lines, "line", _fails)
    assert run("redact", str(logs), "-o", str(tmp_path / "s"))[0] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "map.json", "there"]
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["mine"]


def _fails(*_: object) -> bytes:
    raise OSError(28, "No space left on device")


def test_no_logs_are_no_copy(tmp_path: Path) -> None:
    with pytest.raises(CollectraceError, match="no rank files"):
        redacted.redact([], tmp_path / "shared")
    assert list(tmp_path.iterdir()) == []
