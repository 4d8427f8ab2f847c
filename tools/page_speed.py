"""How fast the page of a large run is, in the Chromium of this machine, by its own tracing.

    python tools/page_speed.py [--ranks 1024] [--calls 10000]

Prints its size, how long the logs and the page take to be read and written, how long the browser
takes until the map is drawn, and how many frames a second it shows while the map and the page are
scrolled and zoomed. Fails where the page takes 2 MB or more. Needs chromium in PATH and playwright.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from playwright.sync_api import CDPSession, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from collectrace.align.alignment import align
from collectrace.report.page import write
from tools.make_logs import Difference, make

_LARGEST: Final = 2_000_000
_TRACED: Final = "devtools.timeline,disabled-by-default-devtools.timeline.frame"
_SHOWN: Final = "DrawFrame"
"""The event of a frame that reached the screen."""
_SCRIPT: Final = "FireAnimationFrame"
"""The event of what the page does for one."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--logs", type=Path, help="logs that are there already")
    given = parser.parse_args()
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        print("no chromium in PATH", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as where:
        logs = given.logs
        if logs is None:
            differ = Difference(given.ranks // 3, given.calls * 3 // 4, "extra")
            logs = make(Path(where), given.ranks, given.calls, differ)
        page = Path(where) / "report.html"
        began = time.perf_counter()
        alignment = align(logs)
        read = time.perf_counter()
        with page.open("w") as out:
            write(alignment, out)
        written = time.perf_counter()
        size = page.stat().st_size
        print(
            f"logs read and judged in {read - began:.1f} s; page written in {written - read:.1f} s"
        )
        print(f"size {size / 1e6:.3f} MB")
        _measure(found, page)
    return int(size >= _LARGEST)


def _measure(chromium: str, file: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        paint = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
        )
        load = page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
        print(f"loaded in {load} ms, first painted after {paint:.0f} ms")
        session = page.context.new_cdp_session(page)
        box = page.locator("#scroll").bounding_box()
        assert box is not None
        middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}

        def scroll(x: int, y: int, at: dict[str, float] = middle) -> Callable[[], None]:
            def act() -> None:
                session.send(
                    "Input.synthesizeScrollGesture",
                    {**at, "xDistance": x, "yDistance": y, "speed": 900,
                     "gestureSourceType": "mouse", "preventFling": True},
                )  # fmt: skip

            return act

        _frames(page, session, "the map along its calls", scroll(1500, 0))
        page.locator("#map-all").click()
        _frames(page, session, "zoom in and out", lambda: page.evaluate(_ZOOM))
        page.locator("#map-each").click()
        page.locator("#map-all").click()
        _frames(page, session, "the map down its ranks, one by one", scroll(0, -1500))
        _frames(page, session, "the page", scroll(0, -1500, {"x": 200, "y": 400}))
        browser.close()


_ZOOM: Final = """() => new Promise((done) => {
  const map = document.getElementById('scroll'), box = map.getBoundingClientRect();
  let n = 0;
  const step = () => {
    if (n++ >= 90) { done(); return; }
    map.dispatchEvent(new WheelEvent('wheel', {
      deltaY: n < 45 ? -60 : 60, ctrlKey: true, cancelable: true,
      clientX: box.x + box.width / 2, clientY: box.y + 40,
    }));
    requestAnimationFrame(step);
  };
  step();
})"""


def _frames(page: Page, session: CDPSession, what: str, act: Callable[[], object]) -> None:
    """Act, and print the frames that the browser showed meanwhile."""
    events: list[dict[str, Any]] = []
    session.on("Tracing.dataCollected", lambda data: events.extend(data["value"]))
    done: list[bool] = []
    session.once("Tracing.tracingComplete", lambda _: done.append(True))
    session.send("Tracing.start", {"categories": _TRACED, "transferMode": "ReportEvents"})
    act()
    session.send("Tracing.end")
    while not done:
        page.wait_for_timeout(20)
    shown = sorted(e["ts"] for e in events if e.get("name") == _SHOWN)
    gaps = [(b - a) / 1000 for a, b in pairwise(shown)]
    scripts = [e["dur"] / 1000 for e in events if e.get("name") == _SCRIPT]
    if len(gaps) < 2:
        print(f"{what}: no frames were traced")
        return
    told = f"{what}: {1000 * len(gaps) / sum(gaps):.0f} frames a second"
    if len(scripts) > 1:
        worst = quantiles(scripts, n=20)[-1]
        told += f"; its script takes {median(scripts):.1f} ms of each, 95 % within {worst:.1f} ms"
    print(told)


if __name__ == "__main__":
    sys.exit(main())
