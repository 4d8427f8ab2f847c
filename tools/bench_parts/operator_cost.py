"""What tracing adds to one operator, of what that cost is made, and whether memory stays flat.

On torch's ``fake`` backend, which does nothing: what remains is the way there.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from time import thread_time_ns
from types import FrameType, SimpleNamespace
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist
from torch._C import DispatchKey, DispatchKeySet

import collectrace
from collectrace.signature import BASE, PRIME, extend
from collectrace.tracer import switch
from collectrace.tracer.record import native, owners, recorder, sites
from collectrace.tracer.tap import wire
from tools.bench_parts.common import Claim, Part, cpu_per_call, fresh, middle, resident, spread

_CALLS: Final = 4000
"""Per variant and round."""


def part_operator(*, quick: bool) -> Part:
    """(a) An untraced, an emptily intercepted and a traced all_reduce, recorded by either code."""
    part = Part("a", "added to one all_reduce, `fake` backend, CPU time of the calling thread")
    runs = [fresh(_in_turns, 5 if quick else 20)[0] for _ in range(2 if quick else 4)]
    found = {name: [value for run in runs for value in run[name]] for name in runs[0]}
    untraced = middle(found["untraced"])
    part.row("untraced, us", spread(found["untraced"], 1000))
    part.row("an empty interception adds, us", f"{(middle(found['empty']) - untraced) / 1000:.2f}")
    part.figures = {f"{name}_ns": middle(values) for name, values in found.items()}
    for code, limit in LIMITS.items():
        if code not in found:
            part.row(f"recorded by the code in {code}", "not built: run tools/build_native.py")
            continue
        ratios = [_ratio(*(middle(run[n]) for n in ("untraced", "empty", code))) for run in runs]
        part.row(f"recorded in {code} adds, us", f"{(middle(found[code]) - untraced) / 1000:.2f}")
        part.row("    ratio of the two, per process", spread(ratios))
        part.figures |= {"ratio": middle(ratios), "traced_ns": middle(found[code])}
        part.figures[f"ratio_{code}"] = middle(ratios)
        part.claims.append(
            Claim(f"recorded in {code}: at most {limit} times an empty interception",
                  middle(ratios), limit)
        )  # fmt: skip
    return part


LIMITS: Final = {"python": 2.0, "c": 1.3}
"""What tracing may add, of what an empty interception adds, by the code that records. The figures
of other parts are of the last one that was built."""


def _ratio(untraced: float, empty: float, traced: float) -> float:
    return (traced - untraced) / (empty - untraced)


def _in_turns(_: int, rounds: int) -> dict[str, list[float]]:
    call = _all_reduce(torch.zeros(1))
    codes = [code for code in LIMITS if native.chosen(wanted=code == "c").name == code]
    seen: dict[str, list[float]] = {name: [] for name in ("untraced", "empty", *codes)}
    for _ in range(rounds):
        seen["untraced"].append(cpu_per_call(call, _CALLS))
        undo = _intercept()
        cpu_per_call(call, 200)
        seen["empty"].append(cpu_per_call(call, _CALLS))
        undo()
        for code in codes:
            with collectrace.trace("logs", native=code == "c"):
                cpu_per_call(call, 200)
                seen[code].append(cpu_per_call(call, _CALLS))
    return seen


def _all_reduce(tensor: torch.Tensor) -> Callable[[], Any]:
    # By its module each time, as a script calls it: a patch must be met.
    return lambda: dist.all_reduce(tensor)


def _intercept() -> Callable[[], None]:
    """The tracer's way into the dispatcher, and nothing done there."""
    library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
    redispatch = torch.ops.c10d.allreduce_.default._handle.redispatch_boxed
    below: dict[int, DispatchKeySet] = {}

    def kernel(keyset: DispatchKeySet, *args: Any) -> Any:
        raw = keyset.raw_repr()
        rest = below.get(raw)
        if rest is None:
            rest = below[raw] = keyset.remove(DispatchKey.BackendSelect)
        return redispatch(rest, *args)

    library.impl("allreduce_", kernel, "BackendSelect", with_keyset=True)  # type: ignore[no-untyped-call]
    return library._destroy


# -- the parts of a record ------------------------------------------------------------------


def part_breakdown(operator: Part, *, quick: bool) -> Part:
    """(f) Each part of a record in Python by itself, and what is left for the way between them."""
    part = Part("f", "the parts of that in Python, each by itself on warm caches")
    pieces: dict[str, float] = fresh(_pieces, 3 if quick else 15)[0]
    figures = operator.figures
    added = figures["python_ns"] - figures["untraced_ns"]
    pieces = {"interception": figures["empty_ns"] - figures["untraced_ns"], **pieces}
    pieces["the way between them"] = added - sum(pieces.values())
    for name, ns in pieces.items():
        part.row(name, f"{ns / 1000:5.2f} us {100 * ns / added:5.0f} %")
    part.row("in all", f"{added / 1000:5.2f} us {100:5.0f} %")
    part.figures = pieces
    part.claims = [
        Claim(f"{_ABOVE} take at most 5 % of that", 100 * pieces[_ABOVE] / added, 5),
    ]
    return part


_ABOVE: Final = "the user's frames above the line"


def _pieces(_: int, repeat: int) -> dict[str, float]:
    call = _all_reduce(torch.zeros(1))
    with mock.patch.object(wire, "install", return_value=lambda: None):
        alone = []
        patched = []
        for _ in range(repeat):
            alone.append(cpu_per_call(call, _CALLS))
            with collectrace.trace("logs", native=False):
                cpu_per_call(call, 200)
                patched.append(cpu_per_call(call, _CALLS))
    found = {"scope (wrapper of the public function)": middle(patched) - middle(alone)}
    with collectrace.trace("logs", native=False):
        found[_ABOVE] = _above_the_line(call, repeat)
        current = switch.current()
        assert current is not None
        assert current.recorder is not None
        running: Any = current.recorder
        issue = running.issue

        def probe(reader: Any, args: tuple[Any, ...]) -> Any:
            frame = sys._getframe(1).f_back
            found.update(_pieces_of(running, reader, args, frame, repeat))
            return issue(reader, args)

        running.issue = probe
        call()
    return found


def _above_the_line(call: Callable[[], Any], repeat: int) -> float:
    """What a call costs, less what it costs where the walk over its stack ends at its line."""
    seen: dict[Any, list[float]] = {_site: [], sites.find: []}
    # Many short turns: what else runs on the machine meets both alike.
    for _ in range(20 * repeat):
        for find, took in seen.items():
            with mock.patch.object(recorder, "sites", SimpleNamespace(find=find)):
                took.append(cpu_per_call(call, 500, 5))
    site_only, whole = map(middle, seen.values())
    return whole - site_only


def _site(frame: FrameType | None, thread: Any = None) -> sites.Place:
    """``sites.find`` without the frames above the line."""
    skipped = owners.torch_codes
    while frame is not None and id(frame.f_code) in skipped:
        frame = frame.f_back
    while frame is not None:
        code = id(frame.f_code)
        found = _sites.get(code + frame.f_lasti)
        if found is not None:
            return found
        if owners.classify(frame.f_code) == owners.USER:
            found = _sites[code + frame.f_lasti] = sites.find(frame, thread)
            return found
        frame = frame.f_back
    return sites.NOWHERE


_sites: dict[int, sites.Place] = {}


def _pieces_of(
    running: Any, reader: Any, args: tuple[Any, ...], frame: Any, repeat: int
) -> dict[str, float]:
    """Called while a collective is being issued: everything is what the tracer itself sees."""
    group = running.book.states[reader.group(args)]
    keys, templates = list(group.templates), group.templates
    stream = next(iter(group.streams.values()))
    template = templates[keys[0]]
    line = b'{"kind":"call","t":%d,"seq":%d%b,"digest":%d,"program":%d%b}\n'
    names = {
        "reader": reader, "args": args, "reduce_op": dist.ReduceOp.SUM, "find": _site,
        "frame": frame, "templates": templates, "key": keys[0], "d": stream.digest, "B": BASE,
        "P": PRIME, "line": line, "body": template.body, "t": 10**13,
        "write": running.writer.write,
        "whole": line % (10**13, 5, template.body, stream.digest, stream.program, b""),
    }  # fmt: skip
    assert extend(stream.digest, 1) == (stream.digest * BASE + 1) % PRIME
    statements = {
        "describe (group, key of the arguments, look-up)":
            "reader.group(args); reader.key(args, reduce_op); templates.get(key)",
        "site (walk to the user's frame)": "find(frame)",
        "digests": "(d * B + 1) % P; (d * B + 2) % P",
        "encode": "line % (t, 5, body, d, d, b'')",
        "write": "write(whole)",
    }  # fmt: skip
    return {name: _time(statement, names, repeat) for name, statement in statements.items()}


def _time(statement: str, names: dict[str, Any], repeat: int) -> float:
    timer = timeit.Timer(statement, globals=names, timer=thread_time_ns)
    return min(timer.repeat(max(5, repeat), 5000)) / 5000


# -- memory -----------------------------------------------------------------------------------


def part_memory(*, quick: bool) -> Part:
    """(e) A million calls, and how much more memory the process holds after them."""
    first, last = (20_000, 200_000) if quick else (100_000, 1_000_000)
    part = Part("e", f"memory after {first:,} and after {last:,} calls, `fake` backend")
    begin, end = fresh(_hold, first, last)[0]
    grown = (end - begin) / 2**20
    part.row("resident, MiB", f"{begin / 2**20:.1f}, then {end / 2**20:.1f}")
    part.row("grown by, MiB", f"{grown:+.2f}")
    part.figures = {"begin": begin, "end": end}
    part.claims = [Claim("memory grows by at most 1 MiB", grown, 1)]
    return part


def _hold(_: int, first: int, last: int) -> tuple[int, int]:
    calls = [_all_reduce(torch.zeros(n)) for n in range(1, 9)]
    with collectrace.trace("logs", max_bytes=32 << 20):
        for _ in range(first // len(calls)):
            for call in calls:
                call()
        begin = resident()
        for _ in range((last - first) // len(calls)):
            for call in calls:
                call()
        return begin, resident()
