"""Whether anything grows in a traced process that lives long: memory, descriptors, disk, cost.

    python tools/soak.py --calls 10_000_000            # one rank, torch's `fake` backend
    python tools/soak.py --calls 500_000 --ranks 2     # two gloo ranks
    python tools/soak.py --minutes 60                  # groups, models and threads come and go
    python tools/soak.py --minutes 10 --untraced       # what torch by itself takes

With ``--minutes``, two gloo ranks repeat a cycle: groups are made, used and destroyed, a DDP model
trains and is dropped, threads come, call and go; after ``--cycles`` of them the process group is
destroyed and made anew, which begins another run. Exit status: 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.align import align
from collectrace.config import Config
from tools.bench_parts.common import Claim, cpu_per_call, fresh, middle, resident

_WARM: Final = 0.1
"""The part of a run after which caches are filled and memory is compared."""

_SAMPLES: Final = 60
"""Of a whole run, at least."""

_MEASURED: Final = 2000
"""Calls whose cost is measured for one sample."""

_HELD: Final = 4.0
"""KiB, and objects of Python, that a process may hold more for each cycle, or each 10,000 calls, in
its second half. Torch by itself takes 2.5 KiB and up to 3 objects a cycle."""

_DEARER: Final = 1.1
"""Cost of a call in the last third, of that in the first."""

_MAX_BYTES: Final = 32 << 20

_GO, _SAMPLE, _STOP = 0, 1, 2
"""What rank 0 says at the end of a cycle."""


@dataclass(slots=True)
class Sample:
    """What one rank held at one moment."""

    seconds: float
    calls: int
    """Collectives and messages issued so far."""
    cycles: int
    runs: int
    resident: int
    objects: int
    """Of Python, that its collector knows."""
    threads: int
    descriptors: int
    disk: int
    """Bytes of the log folder."""
    call_ns: float
    """CPU time of one all_reduce on a ``fake`` group, in the calling thread."""


# -- what a rank does --------------------------------------------------------------------------


class _Rank:
    """One rank, that looks at itself now and then."""

    def __init__(self, rank: int, folder: str) -> None:
        self.rank = rank
        self.folder = Path(folder)
        self.samples: list[Sample] = []
        self.calls = self.cycles = 0
        self.runs = 1
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def sample(self, act: Callable[[], Any]) -> None:
        """Take a sample; ``act`` makes the call that is measured."""
        call_ns = cpu_per_call(act, _MEASURED)
        self.calls += _MEASURED
        held = resident()
        self.samples.append(
            Sample(
                seconds=self.seconds,
                calls=self.calls,
                cycles=self.cycles,
                runs=self.runs,
                resident=held,
                objects=len(gc.get_objects()),
                threads=_entries("/proc/self/task"),
                descriptors=_entries("/proc/self/fd"),
                disk=_size(self.folder),
                call_ns=call_ns,
            )
        )


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):  # the other rank may remove it
            total += file.stat().st_size
    return total


def _begin(folder: str, is_traced: bool) -> None:
    if is_traced:
        collectrace.enable(folder, max_bytes=_MAX_BYTES, announce=False)


def _call(rank: int, folder: str, is_traced: bool, count: int) -> list[Sample]:
    """Make so many calls on the default group."""
    me = _Rank(rank, folder)
    tensors = [torch.zeros(n) for n in range(1, 9)]
    _begin(folder, is_traced)
    every = max(1, count // _SAMPLES)
    while me.calls < count:
        for n in range(max(len(tensors), every - _MEASURED)):
            dist.all_reduce(tensors[n % len(tensors)])
            me.calls += 1
        me.sample(lambda: dist.all_reduce(tensors[0]))
    return me.samples


def _live(
    rank: int, folder: str, is_traced: bool, seconds: float, cycles: int, port: int
) -> list[Sample]:
    """Repeat the cycle for so long, and begin another run after so many of them."""
    me = _Rank(rank, folder)
    store = TCPStore("127.0.0.1", port, is_master=False)
    go = torch.tensor(_GO)
    _begin(folder, is_traced)
    while go != _STOP:
        if me.cycles and me.cycles % cycles == 0:
            dist.destroy_process_group()
            me.runs += 1
            generation = PrefixStore(f"generation {me.runs}", store)
            dist.init_process_group("gloo", store=generation, rank=rank, world_size=2)
        _cycle(me)
        # Rank 0's clock counts.
        is_due = me.seconds >= len(me.samples) * seconds / _SAMPLES
        go.fill_(_STOP if me.seconds >= seconds else _SAMPLE if is_due else _GO)
        dist.broadcast(go, 0)
        me.calls += 1
        if go != _GO:
            _measure(me)
    return me.samples


def _measure(me: _Rank) -> None:
    # The other rank is not at it at the same time of every sample: the group moves nothing.
    group = dist.new_group([0, 1], backend="fake")
    tensor = torch.zeros(1)
    me.sample(lambda: dist.all_reduce(tensor, group=group))
    dist.destroy_process_group(group)


def _cycle(me: _Rank) -> None:
    """What comes and goes in a job that lives long."""
    groups = [dist.new_group([0, 1]) for _ in range(3)]
    for group in groups:
        for _ in range(4):
            dist.all_reduce(torch.ones(8), group=group)
        dist.broadcast(torch.ones(2), 0, group=group)
        work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
        work.wait()
    other = 1 - me.rank
    messages = [
        dist.P2POp(dist.isend, torch.ones(4), other, tag=me.cycles % 3),
        dist.P2POp(dist.irecv, torch.empty(4), other, tag=me.cycles % 3),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    threads = [threading.Thread(target=_reduce, args=(group,)) for group in groups[:2]]
    for thread in threads:
        thread.start()
    _train()
    for thread in threads:
        thread.join()
    for group in groups:
        dist.destroy_process_group(group)
    me.cycles += 1
    me.calls += 3 * 6 + 2 + 2 * 10 + 3


def _reduce(group: dist.ProcessGroup) -> None:
    for _ in range(10):
        dist.all_reduce(torch.ones(16), group=group)


def _train() -> None:
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()


# -- what is claimed of it ---------------------------------------------------------------------


def claims(samples: Sequence[Sample], is_traced: bool) -> list[Claim]:
    """What must hold of one rank."""
    half, last = samples[len(samples) // 2], samples[-1]
    # The first default group that is made anew brings threads and descriptors that stay.
    warm = next(
        (sample for sample in samples if sample.runs > 1), samples[int(len(samples) * _WARM)]
    )
    unit, count = "cycle", last.cycles - half.cycles
    if not count:
        unit, count = "10,000 calls", (last.calls - half.calls) // 10_000
    third = max(1, len(samples) // 3)
    costs = [sample.call_ns for sample in samples]
    kib, objects = (last.resident - half.resident) / 1024, last.objects - half.objects
    found = [
        Claim(f"KiB more per {unit}", kib / max(1, count), _HELD),
        Claim(f"objects more per {unit}", objects / max(1, count), _HELD),
        Claim("descriptors more", last.descriptors - warm.descriptors, 0),
        Claim("threads more", last.threads - warm.threads, 0),
        Claim("cost of a call, last / first", min(costs[-third:]) / min(costs[:third]), _DEARER),
    ]
    if is_traced:
        keep = Config().keep_runs if last.runs > 1 else 1
        found.append(Claim("MiB on disk", last.disk / 2**20, 2.5 * keep * _MAX_BYTES / 2**20))
    return found


def table(samples: Sequence[Sample]) -> str:
    """The samples of one rank at the start, once it is warm, in the middle and at the end."""
    count = len(samples)
    columns = [
        "seconds",
        "calls",
        "cycles",
        "runs",
        "MiB",
        "objects",
        "threads",
        "descriptors",
        "disk_MiB",
        "call_us",
    ]
    rows = [" " * 8 + "".join(f"{column:>12}" for column in columns)]
    for name, n in (("start", 0), ("warm", int(count * _WARM)), ("middle", count // 2),
                    ("end", count - 1)):  # fmt: skip
        s = samples[n]
        near = [other.call_ns for other in samples[max(0, n - 2) : n + 3]]
        figures = (
            f"{s.seconds:.0f}", f"{s.calls:,}", f"{s.cycles:,}", str(s.runs),
            f"{s.resident / 2**20:.1f}", f"{s.objects:,}", str(s.threads), str(s.descriptors),
            f"{s.disk / 2**20:.1f}", f"{middle(near) / 1000:.2f}",
        )  # fmt: skip
        rows.append(f"{name:8}" + "".join(f"{figure:>12}" for figure in figures))
    return "\n".join(rows)


def main(argv: Sequence[str]) -> int:
    """Let the ranks live, print what they held, and say which claims hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    how_long = parser.add_mutually_exclusive_group(required=True)
    how_long.add_argument("--calls", type=int, help="so many calls, and nothing else")
    how_long.add_argument("--minutes", type=float, help="groups, models and threads come and go")
    parser.add_argument("--ranks", type=int, default=1, help="with --calls: 1 is torch's `fake`")
    parser.add_argument("--cycles", type=int, default=25, help="with --minutes: of one run")
    parser.add_argument("--untraced", action="store_true", help="what torch by itself takes")
    parser.add_argument("--logs", type=Path, help="where the record is to stay")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all samples, for programs")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        folder = (options.logs or Path(temporary)).absolute()
        ranks = _run(options, str(folder))
        found = [claim for samples in ranks for claim in claims(samples, not options.untraced)]
        for rank, samples in enumerate(ranks):
            print(f"rank {rank}\n{table(samples)}")
        if not options.untraced:
            # Where one rank of two runs, nothing can show what the other one did.
            right = {"aligned"} if options.minutes or options.ranks > 1 else {"unknown"}
            found.append(_aligned(folder, right))
    for claim in found:
        print(f"    => {claim.text}: {claim.value:.3g} (at most {claim.limit:g}), {claim.verdict}")
    if options.json is not None:
        told = {"samples": [[asdict(sample) for sample in samples] for samples in ranks],
                "claims": [asdict(claim) | {"holds": claim.holds} for claim in found]}  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0 if all(claim.holds for claim in found) else 1


def _run(options: argparse.Namespace, folder: str) -> list[list[Sample]]:
    is_traced = not options.untraced
    if options.calls:
        return fresh(
            _call, folder, is_traced, options.calls, ranks=options.ranks, limit=6 * 3600
        )  # fmt: skip
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return fresh(
        _live, folder, is_traced, options.minutes * 60, options.cycles, store.port, ranks=2,
        port=store.port, limit=options.minutes * 60 + 600,
    )  # fmt: skip


def _aligned(folder: Path, right: Collection[str]) -> Claim:
    """How many runs of the folder have another verdict than these."""
    began = time.process_time()
    runs = sorted(run.name for run in folder.iterdir() if run.is_dir())
    bad = 0
    for run in runs:
        alignment = align(folder, run=run)
        if alignment.status not in right:
            bad += 1
            print(f"{run}: {alignment.outcome}; {[f.headline for f in alignment.findings]}")
    print(f"aligning {len(runs)} runs took {time.process_time() - began:.1f} s of CPU")
    return Claim(f"runs that are not {' or '.join(right)}", bad, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
