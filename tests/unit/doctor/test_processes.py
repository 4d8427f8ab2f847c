from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.doctor import processes
from collectrace.doctor.processes import Found, Process
from tests.support.proc import BEGAN, Proc


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def pids(found: Found) -> list[int]:
    return [one.pid for one in found.processes]


def only(proc: Proc) -> Process:
    (one,) = processes.find(proc=proc.folder).processes
    return one


def test_what_is_told_of_a_rank(proc: Proc) -> None:
    file = Path("/logs/20260101-000000-aaaaaa/rank00003.0002.jsonl")
    proc.add(
        7,
        environment={"RANK": "3", "WORLD_SIZE": "8", "COLLECTRACE": "1", "AWS_SECRET": "x"},
        nccl="/opt/nccl/libnccl.so.2.27.5",
        files=[Path("/dev/null"), file],
    )
    one = only(proc)
    assert (one.rank, one.world_size, one.script, one.state) == (3, 8, "train.py", "S")
    assert (one.torch_version, one.nccl) == ("2.13.0+cu129", "2.27.5")
    assert one.rank_files == (file,)
    assert one.folder == Path("/home/me")
    assert one.started == BEGAN + 5  # 500 ticks of a hundredth of a second
    assert "AWS_SECRET" not in one.environment


def test_the_launcher_and_the_workers_of_a_rank_are_no_ranks(proc: Proc) -> None:
    proc.job([11, 12])
    proc.add(20, parent=12, environment={"RANK": "1", "WORLD_SIZE": "2"})  # DataLoader worker
    assert pids(processes.find(proc=proc.folder)) == [11, 12]


def test_ranks_of_mp_spawn_are_found_without_variables(proc: Proc) -> None:
    spawned = ("python", "-c", "from multiprocessing.spawn import spawn_main; ...")
    proc.add(5, environment={})
    proc.add(6, spawned, parent=5, environment={})
    proc.add(7, spawned, parent=5, environment={})
    assert pids(processes.find(proc=proc.folder)) == [6, 7]


def test_a_rank_is_known_by_the_file_it_writes(proc: Proc) -> None:
    proc.add(5, environment={}, files=[Path("/logs/run/rank00001.jsonl")])
    assert only(proc).rank == 1


def test_a_fork_of_a_rank_that_writes_its_own_file_is_one(proc: Proc) -> None:
    for pid, parent, rank in ((5, 1, 0), (6, 5, 1)):
        proc.add(pid, parent=parent, environment={}, files=[Path(f"/l/rank0000{rank}.jsonl")])
    assert pids(processes.find(proc=proc.folder)) == [5, 6]


def test_a_forked_worker_has_its_ranks_file_open_and_is_none(proc: Proc) -> None:
    file = Path("/l/rank00000.jsonl")
    proc.add(5, environment={}, files=[file])
    proc.add(6, parent=5, environment={}, files=[file])
    assert pids(processes.find(proc=proc.folder)) == [5]


def test_where_there_are_ranks_a_notebook_is_none(proc: Proc) -> None:
    proc.add(5, ("python", "-m", "ipykernel"), environment={})
    assert pids(processes.find(proc=proc.folder)) == [5]
    proc.job([11, 12])
    assert pids(processes.find(proc=proc.folder)) == [11, 12]


@pytest.mark.parametrize("asked", [11, 10, 12])
def test_one_job_of_two(proc: Proc, asked: int) -> None:
    proc.job([11, 12])
    proc.add(30, environment={"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "1"})
    assert pids(processes.find(asked, proc=proc.folder)) == [11, 12]


def test_another_users_process_is_told_apart(proc: Proc) -> None:
    proc.add(5)
    found = processes.find(proc=proc.folder)
    assert not found.processes
    assert [(one.pid, one.is_readable) for one in found.hidden] == [(5, False)]


def test_a_process_that_ended_is_no_other_users(proc: Proc) -> None:
    proc.add(5, state="Z")
    assert not processes.find(proc=proc.folder).hidden


def test_torch_names_its_main_thread(proc: Proc) -> None:
    proc.add(5, ("ray::train",), name="pt_main_thread", environment={})
    proc.add(6, ("java", "-jar"), name="java", environment={})
    assert pids(processes.find(proc=proc.folder)) == [5]


def test_nccl_of_a_wheel_has_its_version_beside_it(proc: Proc) -> None:
    (proc.site_packages / "nvidia_nccl_cu12-2.27.3.dist-info").mkdir()
    proc.add(5, environment={}, nccl=f"{proc.site_packages}/nvidia/nccl/lib/libnccl.so.2")
    assert only(proc).nccl == "2.27.3"


@pytest.mark.parametrize(
    ("gpu", "nccl", "may"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_nccl_that_comes_with_torch_is_not_in_use_without_a_gpu(
    proc: Proc, gpu: bool, nccl: bool, may: bool
) -> None:
    proc.add(5, environment={}, nccl="/l/libnccl.so.2" if nccl else "", gpu=gpu)
    assert only(proc).may_use_nccl is may


def test_hostile_words_are_no_numbers(proc: Proc) -> None:
    proc.add(5, environment={"RANK": "99999999999999999999", "WORLD_SIZE": "-1"})
    one = only(proc)
    assert (one.rank, one.world_size) == (None, None)


def test_garbage_in_proc_is_passed_over(proc: Proc) -> None:
    for pid, text in ((5, ""), (6, "6 (python3"), (7, "\0\xff) S x")):
        proc.add(pid, environment={})
        (proc.folder / str(pid) / "stat").write_text(text)
    assert processes.find(proc=proc.folder) == Found((), ())


def test_no_such_process(proc: Proc) -> None:
    with pytest.raises(ProcessLookupError):
        processes.find(4, proc=proc.folder)


def test_a_machine_without_proc(tmp_path: Path) -> None:
    assert not processes.find(proc=tmp_path / "none").proc_is_there


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("python -u -X dev /a/train.py --x", "train.py"),
        ("python -m torch.distributed.run train.py", "-m torch.distributed.run"),
        ("python -c import", "-c"),
        ("python", ""),
    ],
)
def test_the_script_of_a_command_line(line: str, script: str) -> None:
    assert processes.script(line.split()) == script
