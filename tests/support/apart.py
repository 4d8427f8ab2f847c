"""Ranks as processes of their own, whose log folders no other rank can see."""

from __future__ import annotations

import os
import socket
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support import ports
from tests.zoo.protocol import Program
from tests.zoo.runner import Started, shared

ROOT: Final = Path(__file__).parents[2]

PATIENCE: Final = 300.0
"""Seconds that nothing here takes, however busy the machine is."""


class Apart:
    """A script on some ranks, from entering to leaving a ``with`` block, which kills what is left.

    Each writes its log to ``folder/rankN``, and says what it says in ``folder/rankN.txt``.
    """

    def __init__(self, folder: Path, script: str, world: int = 2, **options: object) -> None:
        self.folder, self.world = folder, world
        self._script = folder / "train.py"
        self._script.write_text(textwrap.dedent(script))
        self._options = {"online": 1, "heartbeat": 0.5, "stall_after": 3, **options}
        self._held = ports.hold()
        self.port: int = self._held.getsockname()[1]
        self.ranks: list[Started] = []

    def __enter__(self) -> Apart:
        for rank in range(self.world):
            environment = {k: v for k, v in os.environ.items() if not k.startswith("COLLECTRACE")}
            environment |= {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.world),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port), "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT), "COLLECTRACE_LOG_DIR": str(self.logs(rank)),
            }  # fmt: skip
            environment |= {f"COLLECTRACE_{k.upper()}": str(v) for k, v in self._options.items()}
            output = self.folder / f"rank{rank}.txt"
            output.touch()
            self.ranks.append(
                shared().start(
                    Program(
                        script=str(self._script),
                        env=environment,
                        folder=str(self.folder),
                        output=str(output),
                    )
                )
            )
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self.ranks:
            rank.end()
        self._held.close()

    def logs(self, rank: int) -> Path:
        return self.folder / f"rank{rank}"

    def said(self, rank: int) -> str:
        return (self.folder / f"rank{rank}.txt").read_text(errors="replace")

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Until something holds.

        Raises:
            AssertionError: it does not come to hold; with what the ranks have said.

        """
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                raise AssertionError("\n".join(map(self.said, range(self.world))))
            time.sleep(0.1)

    def wait_for_words(self, words: str, *ranks: int) -> None:
        """Until these ranks have said something; without any named: until all have.

        On however many lines they say it.
        """
        for rank in ranks or range(self.world):
            self.wait_for(lambda rank=rank: words in " ".join(self.said(rank).split()))  # type: ignore[misc]

    def together(self) -> Path:
        """All rank files in one folder, as a person would gather them after the hang."""
        return gather(self.folder, self.folder / "together")


def gather(folder: Path, to: Path) -> Path:
    """The files of all ranks, each with a log folder ``rankN`` below ``folder``, in one."""
    for file in folder.glob("rank*/2*/rank*"):
        copy = to / file.parent.name / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    return to


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
