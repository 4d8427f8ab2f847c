"""``COLLECTRACE=1`` alone: programs that know nothing of it, however their processes come about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from collectrace.align import align
from collectrace.records import Exit
from tests.support import installed
from tests.support.real_ranks import ROOT, Log, read_log

# What a rank does, as its user wrote it.
WORK: Final = r"""
import os, sys
import torch, torch.distributed as dist

def work(rank, size=2):
    meeting = {} if "MASTER_ADDR" in os.environ else {
        "init_method": f"file://{os.environ['MEETING']}", "rank": rank, "world_size": size,
    }
    dist.init_process_group("gloo", **meeting)
    x = torch.ones(2) * (rank + 1)
    for _ in range(3):
        dist.all_reduce(x)
    os.write(1, f"LOSS {rank} {x.tolist()}\n".encode())
    dist.destroy_process_group()
"""
TORCHRUN: Final = (
    WORK
    + """
work(int(os.environ["RANK"]))
"""
)
SPAWN: Final = (
    WORK
    + """
if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=2)
"""
)
# No torch in the process that is started, ranks two processes below it, in folders of their own.
TREE: Final = """
import os, subprocess, sys
os.environ["MEETING"] = os.path.abspath("meeting")
if len(sys.argv) == 1:
    ranks = [subprocess.Popen([sys.executable, __file__, "agent", str(n)]) for n in range(2)]
    print("torch" in sys.modules, "collectrace" in sys.modules)
    sys.exit(any([rank.wait() for rank in ranks]))
if sys.argv[1] == "agent":
    import torch
    os.mkdir(sys.argv[2])
    os.environ["MEETING"] = os.path.abspath("meeting")
    rank = [sys.executable, os.path.abspath("rank.py"), sys.argv[2]]
    sys.exit(subprocess.call(rank, cwd=sys.argv[2]))
"""
RANK: Final = WORK + "work(int(sys.argv[1]))\n"


class Launcher:
    """Runs programs of a folder as a shell does, in an environment in which this is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = installed.metadata(folder / "installed")

    def __call__(self, *command: str, **variables: str) -> str:
        """What a command printed: ``python`` and these arguments."""
        path = os.pathsep.join(map(str, (self.site, ROOT)))
        clean = {n: v for n, v in os.environ.items() if not n.startswith("COLLECTRACE")}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=clean
            | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def write(self, **programs: str) -> None:
        for name, source in programs.items():
            (self.folder / f"{name}.py").write_text(source)

    @property
    def files(self) -> list[Log]:
        """Whatever was recorded below the folder."""
        return [read_log(path) for path in sorted(self.folder.rglob("*.jsonl"))]

    def both_recorded(self, *ops: str) -> None:
        """There are two ranks of one run in the folder ``logs``, and nothing else."""
        assert [log.path.name for log in self.files] == ["rank00000.jsonl", "rank00001.jsonl"]
        assert len({log.path.parent for log in self.files}) == 1
        assert self.files[0].path.parents[1] == self.folder / "logs"
        for log in self.files:
            assert [call.op for call in log.calls] == list(ops)
            assert [end.reason for end in log.of(Exit)] == ["finished"]
        assert align(self.folder / "logs").status == "aligned"


@pytest.fixture
def launch(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def losses(printed: str) -> list[str]:
    return sorted(line for line in printed.splitlines() if line.startswith("LOSS"))


LAUNCHES: Final[dict[str, tuple[dict[str, str], tuple[str, ...]]]] = {
    "torchrun": (
        {"train": TORCHRUN},
        ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"),
    ),
    "spawn": ({"train": SPAWN}, ("train.py",)),
    "subprocess": ({"train": TREE, "rank": RANK}, ("train.py",)),
}


@pytest.mark.parametrize(
    "how",
    ["torchrun", *(pytest.param(how, marks=pytest.mark.slow) for how in ("spawn", "subprocess"))],
)
def test_every_rank_of_an_untouched_program_is_recorded(how: str, launch: Launcher) -> None:
    programs, command = LAUNCHES[how]
    launch.write(**programs)
    meeting = launch.folder / "meeting"
    said = launch(*command, COLLECTRACE="1", MEETING=str(meeting))
    assert losses(said) == ["LOSS 0 [12.0, 12.0]", "LOSS 1 [12.0, 12.0]"]
    told = [line for line in said.splitlines() if line.startswith("collectrace:")]
    assert [line.partition("to ")[0] for line in told] == ["collectrace: recording "]
    launch.both_recorded(*["all_reduce"] * 3)
    if how == "subprocess":
        assert "False False" in said  # who has no torch loads nothing


@pytest.mark.parametrize("value", ["", "0"])
def test_off_nothing_is_loaded(value: str, launch: Launcher) -> None:
    said = launch(
        "-c", "import sys, torch; print(sorted(m for m in sys.modules if 'collectrace' in m))",
        COLLECTRACE=value,
    )  # fmt: skip
    loaded = {"collectrace", "collectrace.autoload", "collectrace.version"}
    if value:  # somebody has to read it
        loaded |= {"collectrace.config", "collectrace.errors"}
    assert said.splitlines() == [str(sorted(loaded))]


def test_off_wins_over_a_script_that_calls_enable(launch: Launcher, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import collectrace, sys; collectrace.enable(); print('torch' in sys.modules)"
    )
    said = launch("-m", "collectrace", "run", str(script), COLLECTRACE="0")
    assert said == "False\n"


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"COLLECTRACE": "logs"}, "not traced: COLLECTRACE='logs' is not 0 or 1"),
        pytest.param(
            {"COLLECTRACE": "1", "COLLECTRACE_HEARTBEAT": "soon"},
            "not traced: COLLECTRACE_HEARTBEAT='soon' is not a number",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"COLLECTRACE": "1", "COLLECTRACE_HARTBEAT": "1"},
            "HARTBEAT is not a known option and is ignored. Did you mean COLLECTRACE_HEARTBEAT?",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_used_is_one_line_and_the_program_runs(
    variables: dict[str, str], says: str, launch: Launcher
) -> None:
    said = launch("-c", "import torch; print('ran')", **variables)
    *lines, last = said.splitlines()
    assert last == "ran"
    assert len(lines) == 1
    assert says in lines[0]


def test_a_variable_that_cannot_be_used_keeps_no_script_from_running(
    tmp_path: Path, launch: Launcher
) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('ran')\n")
    said = launch("-m", "collectrace", "run", str(script), COLLECTRACE_STALL_AFTER="ten")
    problem, last = said.splitlines()
    assert "not traced: COLLECTRACE_STALL_AFTER='ten' is not a number" in problem
    assert last == "ran"


CALLS: Final = WORK + "work(0, 1)\n"
ENABLES: Final = "import collectrace\ncollectrace.enable({})\n"


@pytest.mark.parametrize(
    ("source", "where", "says"),
    [
        # After torch: it was on already.
        (WORK + ENABLES.format("'mine', heartbeat=2") + "work(0, 1)", "logs", "mine (it is "),
        pytest.param(WORK + ENABLES.format("") + "work(0, 1)", "logs", "", marks=pytest.mark.slow),
        # Before torch: the program's own word counts.
        (ENABLES.format("'mine'") + CALLS, "mine", ""),
    ],
)
def test_a_program_that_enables_it_itself(
    source: str, where: str, says: str, launch: Launcher
) -> None:
    launch.write(train=source)
    meeting = launch.folder / "meeting"
    said = launch("train.py", COLLECTRACE="1", MEETING=str(meeting), COLLECTRACE_HEARTBEAT="2.0")
    usual = "LOSS", "collectrace: recording to "
    told = [line for line in said.splitlines() if not line.startswith(usual)]
    assert len(told) == bool(says)
    assert all(says in line and "heartbeat" not in line for line in told)
    [log] = launch.files
    assert log.path.parents[1] == launch.folder / where
    assert len(log.calls) == 3


# -- collectrace run ------------------------------------------------------------------------


def test_run_reaches_the_processes_that_a_script_starts(launch: Launcher) -> None:
    """As Lightning starts its ranks: rank 0 is the process itself, the other runs its script."""
    launch.write(
        train=WORK
        + """
import subprocess
rank = int(os.environ.get("LOCAL_RANK", "0"))
if not rank:
    other = subprocess.Popen([sys.executable, sys.argv[0]], env=os.environ | {"LOCAL_RANK": "1"})
work(rank)
sys.exit(0 if rank else other.wait())
"""
    )
    meeting = launch.folder / "meeting"
    options = ("--max-bytes", "1G", "--heartbeat", "3")
    launch("-m", "collectrace", "run", *options, "train.py", MEETING=str(meeting))
    assert len(launch.files) == 2
    launch.both_recorded(*["all_reduce"] * 3)
    assert {log.header.heartbeat for log in launch.files} == {3.0}


@pytest.mark.parametrize("inserted", ["--local_rank=1", "--local-rank=0"])
def test_what_a_launcher_inserts_reaches_the_script(
    inserted: str, launch: Launcher, tmp_path: Path
) -> None:
    """``deepspeed --module collectrace run train.py``, say."""
    launch.write(train="import sys; print(sys.argv)")
    words = "-m", "collectrace", inserted, "run", "train.py", "--lr", "1"
    # What is not traced needs no torch.
    _, last = launch(*words, COLLECTRACE_STALL_AFTER="ten").splitlines()
    assert last == str(["train.py", inserted, "--lr", "1"])
