"""What ranks recorded of their source, without what no tracer writes."""

from __future__ import annotations

from collectrace.align.reading import source_lines
from collectrace.records import Source


def test_each_line_is_known_once_however_many_ranks_recorded_it() -> None:
    ways = ["8 return if done:"]
    one = Source(site="train.py:9", lines=["9 gather(x)"], ways=ways)
    assert source_lines.by_site([{one.site: one}, {one.site: one}]) == {one.site: one}


def test_lines_that_no_tracer_writes_are_cut() -> None:
    lines = [*(f"{n} if x:" for n in range(10_000)), f"10000 {'x' * 10_000}"]
    known = source_lines.by_site([{"a.py:1": Source(site="a.py:1", lines=lines)}])["a.py:1"]
    assert len(known.lines) < 1000
    assert known.lines[-1].startswith("10000 xxx")
    assert max(map(len, known.lines)) < 1000
