"""What the page shows can be read: nothing is cut beside empty space, or lost beside an outlier."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.support import seed_cases
from tests.support.cluster import Cluster
from tests.support.synthetic import Run

LEFT_EDGES = """
code => {
  const range = document.createRange(), edges = {};
  for (const node of code.childNodes)
    for (let n = 0; n < node.length; n++) {
      if (!node.data[n].trim()) continue;
      range.setStart(node, n); range.setEnd(node, n + 1);
      const box = range.getBoundingClientRect(), line = Math.round(box.top);
      edges[line] = Math.min(edges[line] ?? Infinity, Math.round(box.left));
    }
  return Object.values(edges);
}
"""
"""Where each line of a text begins, in pixels."""

RECORD_TEXTS = """
window.drawn = [];
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (told, ...rest) {
  window.drawn.push(told);
  return fill.call(this, told, ...rest);
};
"""


def test_a_line_of_the_program_that_wraps_keeps_its_indentation(opened: Open) -> None:
    page = opened(seed_cases.case(4, "ones"))
    lines = page.locator(".lead .listing .line > code")
    edges = [lines.nth(n).evaluate(LEFT_EDGES) for n in range(lines.count())]
    assert max(map(len, edges)) > 1, "no line wraps: the test shows nothing"
    assert all(len(set(of_line)) == 1 for of_line in edges)
    first = [of_line[0] for of_line in edges]
    assert first == sorted(first)
    assert len(set(first)) == 4  # with, for, if, and the call in it
    # So do the notes below a line.
    note = page.locator(".lead .listing .call .notes").last.bounding_box()
    assert note is not None
    assert abs(note["x"] - first[-1]) < 2


def test_what_sentences_quote_is_code(opened: Open) -> None:
    page = opened(seed_cases.case(4, "ones"))
    expect(page.locator(".lead .fix dd code").first).to_have_text(re.compile("^with model.join"))
    assert "`" not in page.locator("main").inner_text()


def test_no_label_of_the_map_is_cut_beside_empty_space(opened: Open) -> None:
    run = Run(2)
    for rank in run:
        rank.call("all_reduce", site="/job/test_of_a_trainer.py:10")
        rank.call("barrier" if rank.rank else "all_reduce", site="/job/test_of_a_trainer.py:11")
    page = opened(run, before=RECORD_TEXTS)
    drawn = page.evaluate("window.drawn")
    assert "blocked, killed before the log ended" in drawn
    assert "test_of_a_trainer.py" in drawn
    assert [told for told in drawn if told.endswith("\N{HORIZONTAL ELLIPSIS}")] == []
    told = page.locator("#map-where")
    assert told.evaluate("e => e.parentElement.scrollWidth <= e.parentElement.clientWidth")


def test_the_first_call_does_not_set_the_scale_of_the_time_chart(opened: Open) -> None:
    cluster = Cluster(1, 4)
    for n in range(200):
        cluster.step({2: 60.0 if n == 0 else 0.02 if n % 2 else 0.0}, shape=[4])
    cluster.finish()
    page = opened(cluster.run)
    points = page.locator("#charts polyline.odd").get_attribute("points")
    assert points is not None
    heights = [float(point.partition(",")[2]) for point in points.split()]
    axis = page.locator("#charts .broad svg line").get_attribute("y1")
    assert axis is not None
    assert float(axis) - max(heights[1:]) > 50
    expect(page.locator("#charts .broad svg")).to_contain_text("call 1: 60 s, not to scale")


def test_settings_that_are_each_ranks_own_are_no_differences(opened: Open) -> None:
    run = Run(3)
    for rank in run:
        number = rank.rank
        rank.header.env = {
            "TORCHELASTIC_ERROR_FILE": f"/tmp/attempt_0/{number}/error.json",
            "PROFILE_TO": f"/scratch/rank-{number}.trace",
            "NCCL_ALGO": "Tree" if number == 2 else "Ring",
            "DROPOUT": f"{number}.5",
        }
        rank.call("all_reduce")
    run.finish()
    page = opened(run)
    differing = page.locator("#environment tr.differs th").all_inner_texts()
    assert differing == ["variable DROPOUT differs", "variable NCCL_ALGO differs"]
    told = page.locator("#environment").inner_text()
    assert "each rank has its own: variable PROFILE_TO, variable TORCHELASTIC_ERROR_FILE" in told
    assert "error.json" not in told
