"""A job's store without a job: a dictionary that answers as a connection to one does."""

from __future__ import annotations

from collections.abc import Sequence


class DictStore:
    """In place of a :class:`collectrace.job_store.JobStore`."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}

    def read(self, key: str) -> bytes | None:
        return self.keys.get(key)

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.keys.get(key) for key in keys]

    def compare_set(self, key: str, expected: bytes, wanted: bytes) -> bytes:
        there = self.keys.get(key)
        if (there is None and not expected) or there == expected:
            self.keys[key] = wanted
        return self.keys.get(key, expected)

    def set(self, key: str, value: bytes) -> None:
        self.keys[key] = value

    def delete(self, key: str) -> None:
        self.keys.pop(key, None)

    def close(self) -> None:
        pass
