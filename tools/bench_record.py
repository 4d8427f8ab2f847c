"""What tracing costs, side by side in one run, as ratios.

    python tools/bench_record.py               # some minutes; --quick: under one
    python tools/bench_record.py --only ac     # some parts only

Exit status: 0 if every claim holds, 1 if one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.bench_parts.common import Part
from tools.bench_parts.operator_cost import LIMITS, part_breakdown, part_memory, part_operator
from tools.bench_parts.pair_cost import part_bytes, part_pair
from tools.bench_parts.step_cost import part_step, part_watchdog

LETTERS: Final = "abcdefg"
_NEEDS: Final = {"b": "a", "d": "abc", "f": "a"}
"""Parts that use figures of others."""


def measure(letters: str, *, quick: bool) -> Iterator[Part]:
    """The parts, each as soon as it is measured."""
    wanted = set(letters).union(*(_NEEDS.get(letter, "") for letter in letters))
    if "a" in wanted:
        yield (operator := part_operator(quick=quick))
    if "f" in wanted:
        yield part_breakdown(operator, quick=quick)
    if "b" in wanted:
        empty = operator.figures["empty_ns"] - operator.figures["untraced_ns"]
        yield (step := part_step(empty, quick=quick))
    if "c" in wanted:
        yield (pair := part_pair(quick=quick))
    if "d" in wanted:
        yield part_bytes(step, pair)
    if "e" in wanted:
        yield part_memory(quick=quick)
    if "g" in wanted:
        yield part_watchdog(quick=quick)


def text(part: Part) -> str:
    """One part as a table."""
    lines = [f"({part.letter}) {part.title}"]
    lines += [f"    {name:46} {value}" for name, value in part.rows]
    lines += [f"    => {claim.text}: {claim.value:.3g}, {claim.verdict}" for claim in part.claims]
    return "\n".join(lines)


def markdown(parts: Iterable[Part]) -> str:
    """The table of the docs."""
    by = {part.letter: part.figures for part in parts}
    a, b, c, d, e, g = (by[letter] for letter in "abcdeg")
    added = ("traced_ns", "detail_ns", "flight_recorder_ns")
    rows = [
        *((f"one collective: tracing adds, of what an empty interception adds; recorded in {code}",
           f"{a[f'ratio_{code}']:.2f} times", f"{limit}")
          for code, limit in LIMITS.items() if f"ratio_{code}" in a),
        ("a DDP step, two gloo ranks, five buckets: the tracer's own bill",
         f"{b['bill_percent']:.1f} % of the step", "1.5 %"),
        ("that step, traced / untraced (untraced / untraced)",
         f"{b['ratio']:.3f} ({b['control']:.3f})", ""),
        ("added to a gloo all_reduce of one float, of what `TORCH_DISTRIBUTED_DEBUG=DETAIL` adds",
         f"1/{1 / c['share']:.0f}", "1/25"),
        ("that all_reduce: with collectrace, DETAIL, torch's Flight Recorder / with none",
         ", ".join(f"{1 + c[name] / c['plain_ns']:.2f}" for name in added), ""),
        ("bytes per record, in the step and in the loop, besides the path of your script",
         ", ".join(f"{size:.0f}" for size in d.values()), "300"),
        ("memory, after a million calls / after the first 100,000",
         f"{e['end'] / e['begin']:.3f}", ""),
        ("the watchdog's thread", f"{g['cpu_percent']:.2f} % of the step", "0.5 %"),
    ]  # fmt: skip
    lines = ["| | measured | at most |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main(argv: Sequence[str]) -> int:
    """Measure, print, and say which claims hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under a minute")
    parser.add_argument("--only", default=LETTERS, metavar="LETTERS", help="parts, such as `acf`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures, for programs")
    parser.add_argument("--markdown", action="store_true", help="the table of the docs at the end")
    options = parser.parse_args(argv)
    if not set(options.only) <= set(LETTERS):
        parser.error(f"the parts are {LETTERS}")
    if options.markdown and set(options.only) != set(LETTERS):
        parser.error("--markdown needs every part")
    parts = []
    for part in measure(options.only, quick=options.quick):
        print(text(part), flush=True)
        parts.append(part)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.json is not None:
        told = [
            asdict(part) | {"claims": [asdict(c) | {"holds": c.holds} for c in part.claims]}
            for part in parts
        ]
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    if options.markdown:
        print("\n" + markdown(parts))
    return 0 if all(claim.holds for part in parts for claim in part.claims) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
