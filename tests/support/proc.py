"""A `/proc` of processes that never ran, as the kernel writes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

TORCH: Final = "7f0000-7f0001 r-xp 00000000 fe:00 42  {}/torch/lib/libtorch_cpu.so\n"
NCCL: Final = "7f0002-7f0003 r-xp 00000000 fe:00 43  {}\n"
BEGAN: Final = 1_700_000_000
"""Seconds since 1970 when this machine was started."""


class Proc:
    """`proc.add(4711, environment={"RANK": "0"})`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "proc"
        self.site_packages = folder / "site-packages"
        self.folder.mkdir()
        (self.folder / "stat").write_text(f"cpu 1 2 3\nbtime {BEGAN}\n")
        (self.site_packages / "torch").mkdir(parents=True)
        (self.site_packages / "torch" / "version.py").write_text("__version__ = '2.13.0+cu129'\n")

    def add(
        self,
        pid: int,
        arguments: Sequence[str] = ("/usr/bin/python3", "-u", "/home/me/train.py", "--lr", "1"),
        *,
        parent: int = 1,
        environment: Mapping[str, str] | None = None,
        torch: bool = True,
        nccl: str = "",
        gpu: bool = False,
        state: str = "S",
        name: str = "python3",
        files: Sequence[Path] = (),
    ) -> None:
        """A process; without an ``environment``: another user's."""
        folder = self.folder / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_text("".join(f"{argument}\0" for argument in arguments))
        zeros = " ".join(["0"] * 17)
        (folder / "stat").write_text(f"{pid} ({name}) {state} {parent} {zeros} 500 0 0\n")
        if environment is None:
            return
        (folder / "environ").write_text("".join(f"{k}={v}\0" for k, v in environment.items()))
        maps = TORCH.format(self.site_packages) if torch else ""
        (folder / "maps").write_text(maps + (NCCL.format(nccl) if nccl else ""))
        (folder / "fd").mkdir()
        files = [*files, *([Path("/dev/nvidia0")] if gpu else [])]
        for number, file in enumerate(files):
            (folder / "fd" / str(number)).symlink_to(file)
        (folder / "cwd").symlink_to("/home/me")

    def job(self, pids: Sequence[int], **fields: object) -> None:
        """Ranks of one job, started by a torchrun whose number is one below the first."""
        self.add(pids[0] - 1, ("python", "/bin/torchrun", "train.py"), environment={})
        for rank, pid in enumerate(pids):
            environment = {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(pids)),
                "LOCAL_WORLD_SIZE": str(len(pids)), "MASTER_ADDR": "a", "MASTER_PORT": "29500",
                "HOME": "/home/me",
            }  # fmt: skip
            self.add(pid, parent=pids[0] - 1, environment=environment, **fields)  # type: ignore[arg-type]
