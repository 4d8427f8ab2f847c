"""Logs of many machines brought together; a host is a folder here, reached by ``env``."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from collectrace import gather
from collectrace.errors import CollectraceError
from tests.support.synthetic import Run

HERE = "env HOST={host}"
"""As good as ssh: it runs its arguments."""


@pytest.fixture
def hosts(tmp_path: Path) -> dict[str, Path]:
    """A run of four ranks of which each host has two."""
    folders = {}
    for n, host in enumerate(("node1", "node2")):
        run = Run(world=4, host=host)
        run.all("all_reduce")
        run.finish()
        for rank in range(4):
            if rank // 2 != n:
                run.omit(rank)
        folders[host] = run.write(tmp_path / host).parent
    return folders


def test_every_host_has_a_folder_of_its_own(hosts: dict[str, Path], tmp_path: Path) -> None:
    for host, folder in hosts.items():
        one = gather.gather(gather.Source(host, str(folder)), tmp_path / "all", HERE)
        assert (one.files, one.problem) == (2, "")
    found = sorted(str(p.relative_to(tmp_path / "all")) for p in tmp_path.glob("all/*/*/*"))
    assert found == [
        f"node{1 + rank // 2}/run-1/rank{rank:05d}.jsonl" for rank in range(4)
    ]  # fmt: skip


def test_again_brings_what_is_new_and_never_less(hosts: dict[str, Path], tmp_path: Path) -> None:
    source = gather.Source("node1", str(hosts["node1"]))
    gather.gather(source, tmp_path / "all", HERE)
    there = hosts["node1"] / "run-1" / "rank00000.jsonl"
    here = tmp_path / "all" / "node1" / "run-1" / "rank00000.jsonl"
    there.write_bytes(there.read_bytes() + b"{}\n")
    gather.gather(source, tmp_path / "all", HERE)
    assert here.read_bytes() == there.read_bytes()
    whole = here.read_bytes()
    there.write_bytes(b"")
    gather.gather(source, tmp_path / "all", HERE)
    assert here.read_bytes() == whole


def test_the_programs_text_comes_along(hosts: dict[str, Path], tmp_path: Path) -> None:
    name = f"{'0a' * 32}.py"
    (hosts["node1"] / "run-1" / "sources").mkdir()
    (hosts["node1"] / "run-1" / "sources" / name).write_text("# train\n")
    (hosts["node1"] / "run-1" / "sources" / "train.py").write_text("# train\n")
    (hosts["node1"] / "run-1" / name).write_text("# train\n")
    one = gather.gather(gather.Source("node1", str(hosts["node1"])), tmp_path / "all", HERE)
    assert (one.files, one.problem) == (3, "")
    assert [str(p.relative_to(tmp_path / "all")) for p in tmp_path.glob("all/**/*.py")] == [
        f"node1/run-1/sources/{name}"
    ]


def test_what_is_no_log_stays_away(tmp_path: Path) -> None:
    evil = tmp_path / "evil.tar"
    data = b"{}\n"
    with tarfile.open(evil, "w") as archive:
        for name in (
            "../../rank00000.jsonl", "/tmp/rank00001.jsonl", "run/rank00002.jsonl", "run/.bashrc",
            "run/x.py", "a/b/c/d/e/f/rank00003.jsonl",
        ):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("run/rank00004.jsonl")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    cat = tmp_path / "cat"
    cat.write_text(f"#!/bin/sh\ncat {evil}\n")
    cat.chmod(0o755)
    one = gather.gather(gather.Source("h", "x"), tmp_path / "deep" / "all", f"{cat} {{host}}")
    assert one.files == 1
    assert [str(p.relative_to(tmp_path / "deep")) for p in tmp_path.rglob("rank*")] == [
        "all/h/run/rank00002.jsonl"
    ]


@pytest.mark.parametrize(
    ("folder", "via", "says"),
    [
        ("/nowhere/at/all", HERE, "/nowhere/at/all"),
        ("/", "no-such-program {host}", "no-such-program is not installed here"),
        (".", "false {host}", "exit status 1"),
        (".", "echo {host}", ""),
    ],
)
def test_what_cannot_be_had_is_said(tmp_path: Path, folder: str, via: str, says: str) -> None:
    one = gather.gather(gather.Source("node1", folder), tmp_path / "all", via)
    assert one.files == 0
    assert one.problem
    assert says in one.problem
    assert "\n" not in one.problem


def test_nothing_but_logs_of_others(tmp_path: Path) -> None:
    (tmp_path / "x.py").touch()
    one = gather.gather(gather.Source("n", str(tmp_path)), tmp_path / "all", HERE)
    assert one.problem == f"no log files in {tmp_path}"


def test_who_is_ended_over_the_rest_of_an_archive_had_no_logs(tmp_path: Path) -> None:
    zeros = tmp_path / "zeros"
    zeros.write_text("#!/bin/sh\nexec head -c 100000000 /dev/zero\n")
    zeros.chmod(0o755)
    one = gather.gather(gather.Source("n", "x"), tmp_path / "all", f"{zeros} {{host}}")
    assert one.problem == "no log files in x"


def test_ssh_is_given_one_line_for_its_shell() -> None:
    source = gather.Source("me@node1", "/job/my logs; rm")
    assert gather.command(source, gather.way("ssh")) == [
        "ssh", "-o", "BatchMode=yes", "--", "me@node1", "tar -cf - -C '/job/my logs; rm' .",
    ]  # fmt: skip
    assert gather.command(source, gather.way("kubectl"))[-6:] == [
        "tar", "-cf", "-", "-C", "/job/my logs; rm", ".",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "host", "folder"),
    [
        ("node1:/job/logs", "node1", "/job/logs"),
        ("me@node1:logs", "me@node1", "logs"),
        ("/here/logs", "", "/here/logs"),
        ("./odd:name", "", "./odd:name"),
    ],
)
def test_sources(text: str, host: str, folder: str) -> None:
    assert gather.Source.parse(text) == gather.Source(host, folder)


@pytest.mark.parametrize("text", ["-oProxyCommand=x:/logs", "node1:", ""])
def test_what_is_no_source(text: str) -> None:
    with pytest.raises(CollectraceError, match="Give HOST:FOLDER"):
        gather.Source.parse(text)


@pytest.mark.parametrize("text", ["telnet", "", "{host"])
def test_what_is_no_way(text: str) -> None:
    with pytest.raises(CollectraceError, match="Use ssh, kubectl, srun, docker"):
        gather.way(text)


def test_names_stay_below_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for host in ("..", "a/../b", "../x"):
        assert os.sep not in gather.Source(host, "x").name
        assert gather.Source(host, "x").name not in ("..", ".", "")


def test_what_is_gathered_is_its_owners(hosts: dict[str, Path], tmp_path: Path) -> None:
    gather.gather(gather.Source("node1", str(hosts["node1"])), tmp_path / "all", HERE)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "all" / "node1").rglob("*")}
    assert modes == {0o600, 0o700}
