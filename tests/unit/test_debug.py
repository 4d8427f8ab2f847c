"""Torch's debug server with the verdict on its front page."""

from __future__ import annotations

import importlib.util
import logging
import os
import pickle
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectrace import debug
from collectrace.debug import VerdictPage
from tests.support.synthetic import Run

frontend = pytest.importorskip("torch.distributed.debug._frontend")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    run = Run(world=2)
    run.all("all_reduce")
    run.rank(0).call("all_reduce", site="<script>alert(1)</script>.py:7")
    run.rank(1).call("barrier", site="train.py:8")
    run.finish()
    run.write(tmp_path / "logs")
    return tmp_path / "logs"


class Index:
    """As torch's own front page."""

    def routes(self) -> list[Any]:
        return [frontend.Route("/", lambda request: b"Hi"), frontend.Route("/x", self.other)]

    def other(self, request: Any) -> bytes:
        return b"other"

    def nav_links(self) -> list[Any]:
        return [frontend.NavLink("/", "Home")]

    def templates(self) -> dict[str, str]:
        return {}


def visit(page: VerdictPage) -> Callable[[str], str]:
    """Torch's server with that handler; what it answers to a path."""
    server = frontend.FrontendServer(0, [Index(), page])
    port = server._server.server_port

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://localhost:{port}{path}", timeout=300) as answer:
            return str(answer.read().decode())

    return get


def test_the_front_page_is_the_verdict(logs: Path) -> None:
    get = visit(VerdictPage(logs))
    for path in "/", "/collectrace":
        page = get(path)
        assert ">diverged</strong>" in page
        assert "barrier (train.py:8)" in page
        assert '<a href="/collectrace">collectrace</a>' in page
        assert '<a href="/">Home</a>' in page
    assert get("/x") == "other"


def test_a_log_is_no_html(logs: Path) -> None:
    page = visit(VerdictPage(logs))("/")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_page_follows_the_job_and_never_fails(tmp_path: Path) -> None:
    get = visit(VerdictPage(tmp_path / "<b>"))
    assert "no verdict: " in get("/")
    assert "<b>" not in get("/").partition("no verdict")[2]
    run = Run(world=2)
    run.all("all_reduce")
    run.finish()
    run.write(tmp_path / "<b>")
    assert ">aligned</strong>" in get("/")


def test_it_has_what_torch_asks_of_a_handler(logs: Path) -> None:
    page = VerdictPage(logs)
    wanted = {name for name in vars(frontend.DebugHandler) if not name.startswith("_")}
    assert wanted <= set(dir(page))
    assert page.dump_filename() == "collectrace"
    assert "error[CT951]" in (page.dump() or "")
    assert "no such folder" in (VerdictPage("nowhere").dump() or "")
    assert pickle.loads(pickle.dumps(page)).log_dir == str(logs)  # the server may be spawned


@pytest.fixture
def torchs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    from torch.distributed import debug as of_torch

    def start_with(start: Callable[..., None]) -> None:
        monkeypatch.setattr(of_torch, "start_debug_server", start)

    return start_with


def test_handlers_are_added_to_on_rank_0(
    torchs: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    got: list[Any] = []

    def start(port: int = 1, handlers: list[Any] | None = None) -> None:
        got.append((port, handlers))

    torchs(start)
    first = Index()
    monkeypatch.setenv("RANK", "0")
    assert debug.start_debug_server(log_dir=tmp_path, port=7, handlers=[first])
    ((port, handlers),) = got
    assert port == 7
    assert handlers[0] is first
    assert handlers[1].log_dir == str(tmp_path)
    got.clear()
    monkeypatch.setenv("RANK", "1")
    assert debug.start_debug_server(port=7)
    assert got == [(7, None)]


def test_logs_are_looked_for_where_they_are_written(
    torchs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[Any] = []

    def start(handlers: list[Any] | None = None) -> None:
        got.extend(handlers or [])

    torchs(start)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("COLLECTRACE_LOG_DIR", "/shared/logs")
    debug.start_debug_server(handlers=[])
    assert [page.log_dir for page in got] == ["/shared/logs"]


def test_an_older_server_starts_without(
    torchs: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: list[int] = []

    def start(port: int = 1, worker_port: int = 0) -> None:
        got.append(port)

    torchs(start)
    monkeypatch.setenv("RANK", "0")
    assert debug.start_debug_server(port=9)
    assert got == [9]
    assert "takes no pages of others" in caplog.text


def test_a_torch_without_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch.distributed import debug as of_torch

    monkeypatch.delattr(of_torch, "start_debug_server")
    with caplog.at_level(logging.WARNING):
        assert debug.start_debug_server() is False
    assert "this torch has no debug server" in caplog.text


PROGRAM = """
import os, sys, time, urllib.request
import torch, torch.distributed as dist
import collectrace
from collectrace.debug import start_debug_server
from torch.distributed.debug import stop_debug_server

collectrace.enable(log_dir=sys.argv[1], announce=False)
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(2))
assert start_debug_server(port=int(sys.argv[2]), start_method="fork")
page = f"http://localhost:{sys.argv[2]}/"
for _ in range(600):
    try:
        print(urllib.request.urlopen(page, timeout=300).read().decode())
        break
    except OSError:
        time.sleep(0.1)
stop_debug_server()
dist.destroy_process_group()
"""


@pytest.mark.skipif(
    importlib.util.find_spec("tabulate") is None, reason="torch's own pages need tabulate"
)
def test_torchs_own_server(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("", 0))
        other.bind(("", 0))
        ports = [str(s.getsockname()[1]) for s in (one, other)]
    env = os.environ | {
        "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": ports[0],
    }  # fmt: skip
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "logs"), ports[1]],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "1 collective" in done.stdout
    assert "Python Stack Traces" in done.stdout  # torch's own pages are still there
