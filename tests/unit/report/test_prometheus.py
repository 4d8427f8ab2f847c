"""Metrics, read back by the grammar of the format."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from collectrace.findings import Alignment, GroupInfo
from collectrace.report import prometheus
from collectrace.views import StreamPosition
from tests.support import alignments

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (-?[\d.]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
Key = tuple[str, tuple[tuple[str, str], ...]]


def read(alignment: Alignment, *positions: StreamPosition) -> dict[Key, float]:
    out = io.StringIO()
    prometheus.write(alignment, positions, out)
    found: dict[Key, float] = {}
    typed = ""
    for line in out.getvalue().split("\n")[:-1]:
        if line.startswith("# "):
            _, what, name, *_ = line.split(" ")
            assert what in ("HELP", "TYPE")
            assert what == "HELP" or name == typed
            assert what == "TYPE" or name != typed, "one HELP per metric"
            typed = name
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] == typed
        key = sample[1], tuple(LABEL.findall(sample[2]))
        assert key not in found, "one sample per series"
        found[key] = float(sample[3])
    return found


RUN = ("run", "20260116-093000-f00d")


def test_the_verdict_and_who_is_pending() -> None:
    sample = alignments.missing_call()
    ranks = (replace(sample.ranks[0], held=12.5), *sample.ranks[1:])
    told = read(replace(sample, ranks=ranks))
    verdicts = {key[1][1][1]: value for key, value in told.items() if key[0].endswith("verdict")}
    assert verdicts == {"aligned": 0, "diverged": 0, "hung": 0, "unknown": 0, "crashed": 1}
    assert told["collectrace_pending_seconds", (RUN, ("rank", "0"))] == 12.5
    assert told["collectrace_pending_seconds", (RUN, ("rank", "3"))] == 0
    assert told["collectrace_ranks", (RUN, ("state", "raised"))] == 2
    assert told["collectrace_findings", (RUN, ("severity", "error"))] == 1
    assert told["collectrace_agreed_collectives", (RUN,)] == 4710
    assert told["collectrace_last_line_timestamp_seconds", (RUN,)] == 1_768_558_325


def test_groups_of_one_description_are_series_of_their_own() -> None:
    tp = [
        GroupInfo(name=name, description="tp", backend="gloo", ranks=(0, 1)) for name in ("3", "4")
    ]
    told = read(
        alignments.all_agree(),
        *(StreamPosition(group=g, device="cpu", rank=0, seq=n) for n, g in enumerate(tp)),
        *(StreamPosition(group=g, device="cpu", rank=None, seq=7) for g in tp),
    )
    labels = ("group", "4"), ("of", "group tp"), ("device", "cpu")
    assert told["collectrace_last_seq", (RUN, ("rank", "0"), *labels)] == 1
    assert told["collectrace_agreed_seq", (RUN, *labels)] == 7


@pytest.mark.parametrize("text", ['a"} 1\nfake{x="', "\\", "a\\n", "\x1b[2J\u202e", "", "\n"])
def test_labels_cannot_be_left(text: str) -> None:
    group = GroupInfo(name=text, description=text, backend="", ranks=(0,))
    position = StreamPosition(group=group, device=text, rank=0, seq=1)
    told = read(replace(alignments.all_agree(), run=text), position)
    assert all(name.startswith("collectrace_") for name, _ in told)
