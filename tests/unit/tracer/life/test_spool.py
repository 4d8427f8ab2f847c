"""Which file systems a rank writes to itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.config import Config
from collectrace.tracer.life import spool


@pytest.fixture(autouse=True)
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = {"/": "ext4", str(tmp_path / "net"): "nfs4", str(tmp_path / "net/scratch"): "xfs"}
    monkeypatch.setattr(spool, "_mounts", lambda: found)
    return found


@pytest.mark.parametrize(
    ("path", "is_local"),
    [
        ("logs", True),
        ("not/there/yet", True),
        ("net", False),
        ("net/logs/run", False),
        ("network", True),
        ("link/logs", False),
        ("through/logs", False),
        ("circle/logs", True),  # nothing can be written there
    ],
)
def test_a_path_is_followed_up_to_where_it_leaves_this_machine(
    tmp_path: Path, path: str, is_local: bool
) -> None:
    (tmp_path / "link").symlink_to("net/mine")
    (tmp_path / "through").symlink_to(tmp_path / "link")
    (tmp_path / "circle").symlink_to("circle")
    assert spool.is_local(tmp_path / path) == is_local


def test_mounts_are_read_as_the_kernel_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert spool._mounts()["/proc"] == "proc"
    assert spool.is_local(Path("/proc/self/logs"))  # nothing can be written there


def test_no_spool_where_nobody_else_is_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ours = tmp_path / "collectrace-spool-0"
    monkeypatch.setattr("os.getuid", lambda: 0)
    ours.mkdir(0o777)
    ours.chmod(0o777)
    assert spool._local_folder() != ours
    ours.chmod(0o700)
    assert spool._local_folder() == ours
    monkeypatch.setattr(spool, "is_local", lambda _: False)
    assert spool.begin(Config(log_dir=tmp_path / "net/logs")) is None
    assert "no spool" in caplog.text
