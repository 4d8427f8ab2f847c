"""Flight Recorder dumps of a large job, into collectrace and into torch's own analyser.

    python tools/bench_flight.py [--ranks 256] [--calls 2000] [--frames 8]

Both run as whole processes, in turn, on the same dumps, which are written as torch's pickler writes
them (torch/csrc/jit/serialization/pickler.cpp: texts and shared frames once, containers not). Then
collectrace reads the rank files that it would have recorded of a job of the same size.

Fails if that is less than 15 times as fast, or if one of the two takes over a tenth of the memory.
"""

from __future__ import annotations

import argparse
import compileall
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.make_logs import make

ROOT: Final = Path(__file__).resolve().parents[1]
FASTER: Final = 15.0
SMALLER: Final = 10.0
START: Final = 1_795_303_182_000_000_000


class Pickler:
    """Plain data as torch's pickler writes it."""

    def __init__(self) -> None:
        self._out = bytearray(b"\x80\x02")
        self._memo: dict[Any, int] = {}

    def dump(self, value: Any) -> bytes:
        self._put(value)
        return bytes(self._out) + b"."

    def _memoized(self, key: Any) -> bool:
        n = self._memo.get(key)
        if n is None:
            return False
        self._out += b"h%c" % n if n < 256 else b"j" + struct.pack("<I", n)
        return True

    def _memoize(self, key: Any) -> None:
        n = self._memo[key] = len(self._memo)
        self._out += b"q%c" % n if n < 256 else b"r" + struct.pack("<I", n)

    def _put(self, value: Any) -> None:  # noqa: C901 - one case per type
        out = self._out
        match value:
            case str():
                if not self._memoized(value):
                    text = value.encode()
                    out += b"X" + struct.pack("<I", len(text)) + text
                    self._memoize(value)
            case None:
                out += b"N"
            case bool():
                out += b"\x88" if value else b"\x89"
            case int() if 0 <= value < 256:
                out += b"K%c" % value
            case int() if 0 <= value < 65536:
                out += b"M" + struct.pack("<H", value)
            case int() if -(1 << 31) <= value < 1 << 31:
                out += b"J" + struct.pack("<i", value)
            case int():
                out += b"\x8a\x08" + struct.pack("<q", value)
            case tuple():
                for one in value:
                    self._put(one)
                out += b"\x86"
            case list():
                out += b"](" if value else b"]"
                for one in value:
                    self._put(one)
                out += b"e" if value else b""
            case dict() if "filename" in value and self._memoized(id(value)):
                pass
            case dict():
                out += b"}("
                for key, one in value.items():
                    self._put(key)
                    self._put(one)
                out += b"u"
                if "filename" in value:
                    self._memoize(id(value))


def dump(rank: int, ranks: int, calls: int, frames: int) -> dict[str, Any]:
    """One rank's ring: a training loop of eight layers on two groups."""
    stack = [
        {"name": f"f{n}", "filename": f"/job/model{n}.py" if n > 1 else "/x/torch/distributed/c.py",
         "line": 10 + n}
        for n in range(max(frames, 1))
    ]  # fmt: skip
    seqs = {"0": 0, "1": 0}
    entries = []
    for n in range(calls):
        group = "1" if n % 5 == 4 else "0"
        seqs[group] += 1
        t = START + n * 1_000_000 + rank * 1000
        op = ("all_reduce", "_all_gather_base")[n % 2]
        out = [4 * ranks, 1024] if n % 2 and group == "0" else [4, 1024 + n % 8]
        sent = [4, 1024] if n % 2 and group == "0" else [4, 1024 + n % 8]
        if group == "1":
            op, out = "all_reduce", sent
        entries.append(
            {
                "frames": list(stack[: frames - n % 2]), "record_id": n, "pg_id": int(group),
                "process_group": (group, "default_pg" if group == "0" else "undefined"),
                "thread_name": "pt_main_thread", "thread_id": "139683416202112",
                "collective_seq_id": seqs[group], "p2p_seq_id": 0, "op_id": seqs[group],
                "profiling_name": f"nccl:{op}", "time_created_ns": t, "input_sizes": [sent],
                "input_dtypes": ["Float"], "output_sizes": [out], "output_dtypes": ["Float"],
                "state": "completed", "time_discovered_started_ns": t + 1000,
                "time_discovered_completed_ns": t + 5000, "retired": True, "timeout_ms": 600_000,
                "is_p2p": False,
            }
        )  # fmt: skip
    everybody = str(list(range(ranks)))
    return {
        "version": "2.10",
        "pg_config": {
            "0": {"name": "0", "desc": "default_pg", "ranks": everybody},
            "1": {"name": "1", "desc": "undefined", "ranks": everybody},
        },
        "comm_lib_version": "2.27.5",
        "pg_status": {
            str(n): {f"last_{what}_collective": seqs[str(n)]
                     for what in ("enqueued", "started", "completed")}
            for n in (0, 1)
        },
        "entries": entries,
    }  # fmt: skip


def write(folder: Path, ranks: int, calls: int, frames: int) -> int:
    """The dumps of all ranks; their bytes."""
    total = 0
    for rank in range(ranks):
        made = dump(rank, ranks, calls, frames)
        data = Pickler().dump(made)
        if rank == 0 and pickle.loads(data) != made:
            raise AssertionError("the pickler of this bench does not write what it is given")
        total += len(data)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
    return total


@dataclass(frozen=True, slots=True)
class Ran:
    """One whole process."""

    status: int
    seconds: float
    cpu: float
    peak: float
    """MiB, of the process and of those it started."""
    said: str


def measure(*command: str) -> Ran:
    """Run it, and watch its memory."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [sys.executable, *command], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT
        )
        peak = 0
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            peak = max(peak, _memory(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode(errors="replace")
    peak = max(peak, usage.ru_maxrss)
    return Ran(process.returncode, seconds, usage.ru_utime + usage.ru_stime, peak / 1024, said)


def _memory(pid: int) -> int:
    """KiB that a process and its children hold now, what they share once."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if int(path.name) == pid or parent == pid:
                rollup = (path / "smaps_rollup").read_text()
                total += next(int(x.split()[1]) for x in rollup.splitlines() if x[:4] == "Pss:")
        except (OSError, ValueError, StopIteration):
            continue
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--frames", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dumps-") as where:
        size = write(Path(where), given.ranks, given.calls, given.frames)
        print(f"{given.ranks} ranks x {given.calls:,} calls, {size / 1e6:.0f} MB of dumps")
        # Torch comes with bytecode, and so does an installed collectrace.
        compileall.compile_dir(str(ROOT / "collectrace"), quiet=2)
        theirs = measure("-m", "torch.distributed.flight_recorder.fr_trace", where)
        dumps = measure("-m", "collectrace.align", where)
    with tempfile.TemporaryDirectory(prefix="logs-") as where:
        make(Path(where), given.ranks, given.calls)
        files = measure("-m", "collectrace.align", where)
    for name, ran in (("torchfrtrace", theirs), ("the dumps", dumps), ("rank files", files)):
        ratios = (theirs.seconds / ran.seconds, theirs.cpu / ran.cpu, theirs.peak / ran.peak)
        print(
            f"  {name:13}{ran.seconds:7.1f} s {ran.cpu:7.1f} s of CPU {ran.peak:8.0f} MiB"
            f"   {ratios[0]:6.1f} x {ratios[1]:6.1f} x {ratios[2]:6.1f} x   exit {ran.status}"
        )
        if ran.status:
            print(ran.said)
    is_small = theirs.peak / max(dumps.peak, files.peak) >= SMALLER
    is_fast = theirs.seconds / files.seconds >= FASTER
    return int(not is_small or not is_fast or dumps.status != 0 or files.status != 0)


if __name__ == "__main__":
    sys.exit(main())
