"""The page in a real browser: what it shows at once, keys, search, links, and what it lets run."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from collectrace.align.alignment import align
from tests.browser.conftest import Open
from tests.support import kind_examples, seed_cases
from tests.support.synthetic import Run

HOSTILE = "</script><img src=x onerror=hit()><script>hit()</script>${hit()}{{hit()}}<!--\"'"


def wholly_in_view(page: Page, selector: str) -> bool:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    size = page.viewport_size
    assert size is not None
    return box["y"] >= 0 and box["x"] >= 0 and box["y"] + box["height"] <= size["height"]


def where(page: Page) -> str:
    return page.locator("#map-where").inner_text()


def comes(page: Page, is_so: Callable[[], bool]) -> bool:
    """Whether it comes to be so: what a key asks for is drawn with the next frame."""
    for _ in range(400):
        if is_so():
            return True
        page.wait_for_timeout(25)
    return False


def span(page: Page) -> int:
    """How many calls the map shows."""
    first, _, last = (
        where(page).partition("calls ")[2].partition(" of ")[0].partition("\N{EN DASH}")
    )
    return int(last) - int(first) + 1


def loop(world: int, rows: int, last: str = "barrier") -> Run:
    """A loop of which one rank leaves out the last call."""
    run = Run(world)
    for rank in run:
        for n in range(rows):
            rank.call("all_reduce", shape=[4 + n % 2], site=f"/job/train.py:{10 + n % 2}")
        rank.call("all_reduce" if rank.rank == 1 else last, site="/job/train.py:20")
    run.finish()
    return run


def test_seed_case_four_is_there_without_scrolling(opened: Open) -> None:
    page = opened(seed_cases.case(4, "ones"))
    assert page.evaluate("scrollY") == 0
    assert page.locator("h1").inner_text() == (
        "rank 1 called all_reduce (join_cases.py:53) inside join(); rank 0 had run out of inputs"
    )
    for part in ("h1", ".lead .fix", ".listing", "#scroll", "#detail"):
        assert wholly_in_view(page, part), part
    assert (
        page.locator(".lead .why dd").inner_text().startswith("Uneven inputs: rank 0 had 5 batches")
    )
    assert (
        "out of the with model.join() if case in (1, 4, 6)"
        in page.locator(".lead .fix dd").first.inner_text()
    )
    lines = page.locator(".lead .listing .call").all_inner_texts()
    assert [line.split()[0] for line in lines] == ["48", "53"]
    assert "rank 1: call 29, all_reduce float32[1] SUM" in lines[1]
    # The row is in view on the map, and told in words, rank by rank.
    detail = page.locator("#detail").inner_text()
    assert detail.startswith("call 29 of the default group")
    assert "rank 1 all_reduce float32[1] SUM your script" in " ".join(detail.split())
    assert "join() counting the ranks that still have inputs" in detail
    first, last = where(page).partition("calls ")[2].partition(" of ")[0].split("\N{EN DASH}")
    assert int(first) < 29 <= int(last)


def test_the_map_draws_the_row_that_parts_in_the_colours_of_the_roles(opened: Open) -> None:
    page = opened(seed_cases.case(4, "ones"))
    seen = page.evaluate(
        """() => {
          const c = document.getElementById('canvas'), p = c.getContext('2d');
          const d = p.getImageData(0, 0, c.width, c.height).data, seen = {};
          for (let i = 0; i < d.length; i += 4) {
            const rgb = [d[i], d[i + 1], d[i + 2]];
            const k = '#' + rgb.map(v => v.toString(16).padStart(2, '0')).join('');
            seen[k] = (seen[k] || 0) + 1;
          }
          const style = getComputedStyle(document.documentElement);
          return [0, 1, 2, 3, 4].map(n => seen[style.getPropertyValue('--role-' + n).trim()] || 0);
        }"""
    )
    # The script, DDP's forward and backward, join(); and no optimizer.
    assert all(count > 200 for count in seen[:4]), seen
    assert seen[4] == 0


@pytest.mark.slow
def test_zoom_goes_from_single_calls_to_the_whole_job(opened: Open) -> None:
    page = opened(loop(4, 600))
    assert comes(page, lambda: span(page) < 12)
    page.locator("#map-all").click()
    assert comes(page, lambda: where(page) == "the default group, calls 1\N{EN DASH}601 of 601")
    page.keyboard.press("+")
    assert comes(page, lambda: span(page) < 601)
    page.keyboard.press("0")
    assert comes(page, lambda: span(page) == 601)
    page.locator("#scroll").hover(position={"x": 400, "y": 50})
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    assert comes(page, lambda: span(page) < 601)
    page.keyboard.press("f")
    assert comes(page, lambda: "601 of 601" in where(page) and span(page) < 12)


@pytest.mark.slow
def test_arrow_keys_go_from_call_to_call_and_tell_each(opened: Open) -> None:
    page = opened(loop(4, 40))
    page.keyboard.press("m")
    expect(page.locator("#scroll")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#detail")).to_contain_text("call 40 of the default group")
    page.keyboard.press("Home")
    expect(page.locator("#detail")).to_contain_text("call 1 of")
    expect(page.locator("#detail")).to_contain_text("train.py:10")
    page.keyboard.press("Enter")
    assert comes(page, lambda: page.evaluate("location.hash") == "#call-0-1")


def test_a_link_to_a_call_opens_on_it(opened: Open) -> None:
    page = opened(loop(4, 600), "#call-0-300")
    expect(page.locator("#detail")).to_contain_text("call 300 of the default group")
    first, last = where(page).partition("calls ")[2].partition(" of ")[0].split("\N{EN DASH}")
    assert int(first) <= 300 <= int(last)
    page.evaluate("location.hash = '#rank-1'")
    expect(page.locator("#scroll")).to_be_focused()


def test_search_finds_ranks_lines_and_findings(opened: Open) -> None:
    page = opened(loop(4, 40))
    page.keyboard.press("/")
    field = page.locator("#find")
    expect(field).to_be_focused()
    page.keyboard.type("rank 3")
    expect(page.locator("#found li").first).to_contain_text("rank 3 finished")
    field.fill("train.py:11")
    expect(page.locator("#found li").first).to_contain_text("train.py:11")
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_contain_text("call 2 of the default group")
    why = page.locator(".lead .why dd")
    field.fill(" ".join(why.inner_text().split()[:6]))
    expect(page.locator("#found .kind").last).to_have_text("why")
    field.press("ArrowUp")
    field.press("Enter")
    expect(why).to_be_focused()
    field.fill("no such thing")
    expect(page.locator("#found li").first).to_have_text("nothing found")
    page.keyboard.press("Escape")
    expect(page.locator("#found")).to_be_hidden()


@pytest.mark.slow
def test_keys_go_from_finding_to_finding(opened: Open) -> None:
    page = opened(seed_cases.case(4, "ones"))
    page.keyboard.press("n")
    assert comes(page, lambda: page.evaluate("location.hash") == "#finding-1")
    page.keyboard.press("n")
    assert comes(page, lambda: page.evaluate("location.hash") == "#finding-2")
    expect(page.locator("#finding-2")).to_be_focused()
    expect(page.locator("#detail")).to_contain_text("call 31 of")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.get_by_role("button", name="close").click()
    expect(page.locator("#help")).to_be_hidden()


@pytest.mark.slow
def test_more_rows_come_on_demand(opened: Open) -> None:
    page = opened(loop(4, 40))
    rows = page.locator("#rows tbody tr[data-seq]")
    before = rows.count()
    page.get_by_role("button", name="rows before").click()
    expect(rows).to_have_count(before + 10)
    numbers = [int(n) for n in page.locator("#rows td.seq").all_inner_texts()]
    assert numbers == sorted(numbers)
    assert "train.py:10" in rows.first.inner_text() or "train.py:11" in rows.first.inner_text()


@pytest.mark.slow
def test_every_rank_has_its_row_when_asked(opened: Open) -> None:
    page = opened(loop(64, 40))
    folded = page.locator("#spacer").evaluate("e => e.clientHeight")
    page.keyboard.press("e")
    expect(page.locator("#map-each")).to_have_attribute("aria-pressed", "true")
    spacer = page.locator("#spacer")
    assert comes(page, lambda: spacer.evaluate("e => e.clientHeight") > folded + 300)


def test_a_deadlock_is_a_picture(opened: Open) -> None:
    page = opened(kind_examples.KINDS["deadlock"]())
    assert page.locator("#graph .edge.circle").count() >= 2
    expect(page.locator(".freeing")).to_contain_text("One call could free")
    assert wholly_in_view(page, "#graph svg")


def hostile() -> Run:
    run = Run(3, host=HOSTILE, argv=[HOSTILE, f"--name={HOSTILE}"], versions={"torch": HOSTILE},
              env={"NCCL_DEBUG": HOSTILE})  # fmt: skip
    for rank in run:
        rank.group("5", [0, 1, 2], description=HOSTILE)
        for n in range(3):
            rank.call("all_reduce", site=f"/job/{HOSTILE}.py:{n}", api=HOSTILE, role=HOSTILE)
        rank.call(HOSTILE if rank.rank == 1 else "barrier", site=f"/{HOSTILE}.py:9")
    run.rank(1).exit("exception", error=HOSTILE, message=HOSTILE, site=HOSTILE)
    for other in (0, 2):
        run.rank(other).stall(stacks={HOSTILE: [f"{HOSTILE}:3 f", HOSTILE]})
    return run


def test_a_hostile_log_runs_nothing(opened: Open, tmp_path: Path) -> None:
    source = tmp_path / "logs"
    run = hostile()
    run.write(source)
    page = opened(align(source), before="window.hits = 0; window.hit = () => { window.hits++; }")
    page.keyboard.press("/")
    page.keyboard.type("script")
    expect(page.locator("#found li").first).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("n")
    assert page.evaluate("window.hits") == 0
    # Nothing of it became an element; and it is there, as text.
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert "<img src=x onerror=hit()>" in page.locator("body").inner_text()


ATTEMPTS: Final = {
    "script": "const s = document.createElement('script'); s.text = 'ran = 1'; "
    "document.body.append(s)",
    "handler": "document.body.insertAdjacentHTML("
    "'beforeend', '<img src=x onerror=\"window.ran = 1\">')",
    "image": "const i = new Image(); i.onload = () => { window.ran = 1 }; "
    "i.src = 'data:image/gif,x'",
    "fetch": "fetch('data:,x').then(() => { window.ran = 1 }, () => {})",
    "eval": "window.ran = eval('1')",
}


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(text, id=name, marks=() if name == "script" else pytest.mark.slow)
        for name, text in ATTEMPTS.items()
    ],
)
def test_the_policy_stops_what_escapes(attempt: str, opened: Open, browser: Any) -> None:
    """Were markup to get through, the policy of the page would still let nothing run."""
    page = opened(loop(2, 3))
    target = page.context.new_page()  # what it says on its console is what is wanted here
    target.goto(page.url)
    target.evaluate("window.blocked = 0; addEventListener('securitypolicyviolation', "
                    "() => { window.blocked++; })")  # fmt: skip
    target.evaluate(f"setTimeout(() => {{ {attempt} }})")
    target.wait_for_function("window.blocked > 0")
    assert target.evaluate("window.ran") is None


def test_narrow_screens_scroll_down_only(opened: Open) -> None:
    page = opened(seed_cases.case(4, "ones"), viewport={"width": 380, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.locator("h1")).to_be_visible()


@pytest.mark.slow
def test_print_leaves_out_what_is_only_for_hands(opened: Open) -> None:
    page = opened(seed_cases.case(4, "ones"))
    page.emulate_media(media="print")
    expect(page.locator(".buttons").first).to_be_hidden()
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("#canvas")).to_be_visible()


def test_what_can_be_read_can_be_read_without_a_script(opened: Open) -> None:
    page = opened(loop(2, 3))
    still = page.context.browser
    assert still is not None
    context = still.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(page.url)
    assert "rank" in plain.locator("h1").inner_text()
    assert plain.locator("#rows tbody tr").count() >= 4
    context.close()


def test_the_script_unpacks_calls_as_they_were_packed(opened: Open) -> None:
    """Told from the packed numbers, one at a time, and drawn from all of them: both are right."""
    run = Run(3)
    draw = random.Random(4)
    program = [draw.randrange(6) for _ in range(150)] + [1, 2, 3] * 60 + [draw.randrange(6)] * 30
    for rank in run:
        own = program if rank.rank < 2 else [*program[:200], 5, *program[190:340]]
        for line in own:
            rank.call("all_reduce", shape=[4], site=f"/job/train.py:{line}")
    run.finish()
    page = opened(run)
    other = [*program[:200], 5, *program[190:340]]
    for seq in (1, 77, 150, 151, 199, 200, 201, 202, 260, 300, 351):
        page.evaluate("seq => { location.hash = `#call-0-${seq}`; }", seq)
        expect(page.locator("#detail p a")).to_have_text(f"call {seq}")
        told = " ".join(page.locator("#detail").inner_text().split())
        assert f"train.py:{program[seq - 1]}" in told
        assert f"train.py:{other[seq - 1]}" in told


def test_every_call_is_drawn_in_the_colour_of_its_role(opened: Open) -> None:
    """The canvas, cell by cell, of a rank whose calls are packed against another's."""
    roles = ["user", "ddp.backward.bucket", "ddp.forward.notify_join", "fsdp.unshard"]
    families = [0, 2, 1, 5]
    program = [n * n % 7 % 4 for n in range(60)]
    other = [*program[:30], 3, *program[30:58]]
    run = Run(2)
    for rank in run:
        for kind in program if rank.rank == 0 else other:
            rank.call("all_reduce", role=roles[kind], site="/job/train.py:1")
    run.finish()
    page = opened(run)
    page.locator("#map-all").click()
    page.evaluate("new Promise(requestAnimationFrame)")
    drawn = page.evaluate(
        """() => {
          const c = document.getElementById('canvas'), p = c.getContext('2d');
          const style = getComputedStyle(document.documentElement);
          const names = [0, 1, 2, 3, 4, 5].map(n => style.getPropertyValue('--role-' + n).trim());
          const gutter = Number(c.dataset.gutter), per = (c.clientWidth - gutter - 8) / 61;
          const all = p.getImageData(0, 0, c.width, c.height).data;
          return [48, 100].map(y => Array.from({length: 59}, (_, i) => {
            const at = 4 * (y * c.width + Math.floor(gutter + (i + 0.3) * per));
            const rgb = [0, 1, 2].map(n => all[at + n].toString(16).padStart(2, '0')).join('');
            return names.indexOf('#' + rgb);
          }));
        }"""
    )
    assert drawn[0][:50] == [families[kind] for kind in program[:50]]
    assert drawn[1][:50] == [families[kind] for kind in other[:50]]


def test_the_suspect_is_in_view_among_many_that_differ(opened: Open) -> None:
    run = Run(60)
    for rank in run:
        # Every rank ends at a call of its own, so none can be told with another.
        rank.calls(100, "all_reduce", shape=[4], site="/job/train.py:1")
        wrong = rank.rank == 50
        rank.call("all_reduce", shape=[4], dtype="int64" if wrong else "float32", site="/t.py:2")
        rank.calls(rank.rank, "all_reduce", shape=[4], site="/job/train.py:3")
    run.finish()
    page = opened(run)
    page.keyboard.press("m")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    # The second row is the suspect's: its own call is told first.
    expect(page.locator("#detail li").first).to_contain_text("rank 50 all_reduce int64[4]")
