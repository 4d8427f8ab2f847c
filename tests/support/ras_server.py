"""What listens where NCCL RAS would: RAS itself, by its sources, or something else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from collectrace.ras.live import Address

SAMPLES: Final = Path(__file__).parents[1] / "unit" / "ras" / "samples"


@contextmanager
def serving(*answers: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Connections are handed to the given ones in turn, the last of them over and over."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            turn = 0
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    answer = answers[min(turn, len(answers) - 1)]
                    turn += 1
                    threading.Thread(target=_answer, args=(answer, connection), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def _answer(answer: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with connection, suppress(OSError):
        answer(connection)


def ras(name: str, *, has_json: bool = True, said: list[str] | None = None) -> Callable[..., None]:
    """What ``rasClientEventLoop`` answers (NCCL 2.30.7; without JSON: 2.26.2)."""

    def answer(connection: socket.socket) -> None:
        lines = connection.makefile("r")
        for line in lines:
            command = line.strip().upper()
            if said is not None:
                said.append(command)
            if command.startswith("CLIENT PROTOCOL"):
                connection.sendall(b"SERVER PROTOCOL 2\n")
            elif command.startswith("TIMEOUT") or (command.startswith("SET FORMAT") and has_json):
                connection.sendall(b"OK\n")
            elif command in ("STATUS", "VERBOSE STATUS"):
                connection.sendall((SAMPLES / name).read_bytes())
                return
            else:
                connection.sendall(f"ERROR: Unknown command {command}\n".encode())

    return answer
