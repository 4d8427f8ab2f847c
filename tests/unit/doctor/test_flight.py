from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectrace.doctor import flight
from collectrace.doctor.processes import Process


def process(**environment: str) -> Process:
    return Process(
        pid=7, parent=1, user="me", state="S", started=0.0, arguments=("python", "train.py"),
        is_readable=True, environment=environment, folder=Path("/work/job"),
    )  # fmt: skip


def write(path: Path, when: float = 100.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"dump")
    os.utime(path, (when, when))


@pytest.mark.parametrize(
    ("environment", "prefix"),
    [
        ({"TORCH_FR_DUMP_TEMP_FILE": "/dumps/rank_"}, "/dumps/rank_"),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "fr/rank_"}, "/work/job/fr/rank_"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/torch/comm_lib_trace_rank_"),
        ({"HOME": "/home/me"}, "/home/me/.cache/torch/comm_lib_trace_rank_"),
        ({}, "/tmp/nccl_trace_rank_"),
    ],
)
def test_where_torch_writes_them(environment: dict[str, str], prefix: str) -> None:
    assert prefix in flight.prefixes([process(**environment)], {})


def test_dumps_are_found_by_their_prefix_and_the_newest_come_first(tmp_path: Path) -> None:
    for rank in (0, 1, 10):
        write(tmp_path / f"new_{rank}", 200.0 + rank)
    write(tmp_path / "old_0", 50.0)
    write(tmp_path / "new_1.bak")
    (tmp_path / "new_2").touch()  # nothing came of it
    found = flight.dumps([f"{tmp_path}/old_", f"{tmp_path}/new_", f"{tmp_path}/none/x_"])
    assert [(one.prefix, one.ranks, one.newest) for one in found] == [
        (f"{tmp_path}/new_", (0, 1, 10), 210.0),
        (f"{tmp_path}/old_", (0,), 50.0),
    ]


def test_a_folder_is_looked_into_for_the_usual_names(tmp_path: Path) -> None:
    for name in ("nccl_trace_rank_0", "nccl_trace_rank_1", "rank00000.jsonl", "notes.txt"):
        write(tmp_path / name)
    (found,) = flight.dumps([], tmp_path)
    assert (found.prefix, found.ranks) == (f"{tmp_path}/nccl_trace_rank_", (0, 1))


@pytest.mark.parametrize(
    ("version", "environment", "is_on"),
    [
        ("2.13.0", {}, True),
        ("2.6.0+cu124", {}, False),
        ("2.9.1", {}, None),
        ("", {}, None),
        ("2.13.0", {"TORCH_FR_BUFFER_SIZE": "0"}, False),
        ("2.6.0", {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}, True),
        ("2.13.0", {"TORCH_FR_BUFFER_SIZE": "many"}, False),
    ],
)
def test_whether_it_records(version: str, environment: dict[str, str], is_on: bool | None) -> None:
    import dataclasses

    one = dataclasses.replace(process(**environment), torch_version=version)
    assert flight.is_recording(one) is is_on


def test_a_pipe_is_one_only_if_it_is_there(tmp_path: Path) -> None:
    one = process(RANK="3", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=f"{tmp_path}/p_")
    assert flight.pipes([one]) == []
    (tmp_path / "p_3.pipe").write_text("a file")
    assert flight.pipes([one]) == []
    (tmp_path / "p_3.pipe").unlink()
    os.mkfifo(tmp_path / "p_3.pipe")
    assert flight.pipes([one]) == [tmp_path / "p_3.pipe"]


def test_what_to_set_has_the_names_that_this_torch_knows() -> None:
    assert "TORCH_FR_BUFFER_SIZE" in flight.exports((2, 13))[0]
    for version in ((2, 12), None):
        assert "TORCH_NCCL_TRACE_BUFFER_SIZE" in flight.exports(version)[0]
