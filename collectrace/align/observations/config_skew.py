"""Find ranks that started differently: versions, variables, arguments, source text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import Finding
from collectrace.records import Header

_MOST: Final = 4
"""Settings that are listed, and values of each."""

_LONGEST: Final = 60
"""Characters of a value that are shown."""

_GIVEN: Final = "given"
"""Value of an option that has none."""

# Settings that are meant to differ between ranks or hosts: identities, addresses and output paths.
_OWN: Final = re.compile(
    r"(^|_)(rank|port|addr|address|host|hostname|hostid|ip|gpu|gpus|device|devices|seed|ifname|hca"
    r"|file|dir|pid)$"
    r"|^(torchelastic_run_id|nccl_debug.*)$"
)
_MARK: Final = "\0"
_QUANTITY: Final = re.compile(r"[-+.\d]*(e[-+]?\d+)?[kmgt]?i?b?", re.IGNORECASE)
_VALUE: Final = re.compile(r"-\.?\d|[^-]|-$")
_NO_SCRIPT: Final = frozenset({"", "-c", "-m"})
_WORKERS: Final = ("/ray/_private/workers/default_worker.py",)
"""Scripts with which a framework starts its workers, with other arguments for each."""

Values = Mapping[int, str]
"""Each rank's value of one setting; ranks without one are omitted."""


def config_skew(case: Case) -> Finding | None:
    """Return a finding on unintended differences of settings; None if there are none."""
    logs = case.evidence.logs
    # A file that has lost its header says nothing of how its rank was started.
    headers = {rank: log.header for rank, log in logs.items() if log.header.pid}
    parts = [
        f"{what}: {_listed(values, headers, absent)}"
        for what, name, values, absent in settings(headers)
        if len({values.get(rank) for rank in headers}) > 1 and not is_own(name, values, headers)
    ]
    backends = _backends(logs)
    parts += [
        f"backend of {words.group(info)}: {_listed(values, values, '')}"
        for info in case.comparison.groups.values()
        if len(set((values := backends.get(info.name, {})).values())) > 1
    ]
    if not parts:
        return None
    more = f"; and {len(parts) - _MOST} more" if len(parts) > _MOST else ""
    return Finding(
        kind="config_skew",
        severity="info",
        headline=f"the ranks were not started alike: {'; '.join(parts[:_MOST])}{more}",
        cause="Different versions choose different algorithms and issue different collectives; "
        "different variables change timeouts and transports; different arguments may do anything.",
        fix="Start every rank with the same environment and the same arguments.",
    )


def source_skew(case: Case) -> Finding | None:
    """Return a warning about files with different texts on some ranks; None if none."""
    skewed = case.evidence.source_files.skewed()
    if not skewed:
        return None
    paths = list(skewed)[:_MOST]
    texts = (_versions(list(skewed[path].values())) for path in paths)
    parts = [f"{words.site(path)} ({told})" for path, told in zip(paths, texts, strict=True)]
    more = f"; and {len(skewed) - _MOST} more files" if len(skewed) > _MOST else ""
    return Finding(
        kind="config_skew",
        severity="warning",
        headline=f"the ranks ran different code: {'; '.join(parts)}{more}",
        cause="Each rank recorded the hash of the file, and the hashes differ. Ranks that run "
        "different code may issue different collectives. No lines of such a file are shown: a "
        "number means another line on another rank.",
        fix="Start every rank from the same checkout. If the file was edited while the job was "
        "starting, start the job again.",
        notes=tuple(path for path in paths if "/" in path),
    )


def _versions(ranks: Sequence[Sequence[int]]) -> str:
    """Return ``one version on rank 1, another on ranks 0,2``."""
    told = [f"another on {words.ranks(one)}" for one in ranks[1:_MOST]]
    more = [f"{len(ranks) - _MOST} more"] if len(ranks) > _MOST else []
    return ", ".join((f"one version on {words.ranks(ranks[0])}", *told, *more))


def settings(headers: Mapping[int, Header]) -> Iterator[tuple[str, str, Values, str]]:
    """Yield every setting: its description, its name, and each rank's value.

    The fourth item is a word for ranks without a value.
    """
    versions = {rank: header.versions for rank, header in headers.items()}
    for name, values in _by_name(versions):
        yield f"version of {name}", "", values, "none"
    for name, values in _by_name({rank: header.env for rank, header in headers.items()}):
        yield f"variable {name}", name, values, "unset"
    # A process without its own command line says nothing about those of others.
    lines = {r: h.argv for r, h in headers.items() if h.argv and _is_own_script(h.argv[0])}
    if len(lines) < len(headers):
        return
    scripts = {rank: argv[0].rpartition("/")[2] for rank, argv in lines.items()}
    yield "script", "", scripts, ""
    for name, values in _by_name({rank: _arguments(argv) for rank, argv in lines.items()}):
        yield f"argument {name}", name, values, "not given"


def _is_own_script(path: str) -> bool:
    return path not in _NO_SCRIPT and not path.endswith(_WORKERS)


def _by_name(tables: Mapping[int, Mapping[str, str]]) -> Iterator[tuple[str, Values]]:
    """Yield the values of each name by rank, names sorted."""
    for name in sorted({name for table in tables.values() for name in table}):
        yield name, {rank: table[name] for rank, table in tables.items() if name in table}


def _arguments(argv: Sequence[str]) -> dict[str, str]:
    """Return ``--lr 0.1 --fast a.yaml`` as names and values; unnamed values are 1, 2, .."""
    found: dict[str, str] = {}
    place, rest = 0, list(argv[1:])
    while rest:
        word = rest.pop(0)
        if _VALUE.match(word):
            place += 1
            found[str(place)] = word
            continue
        name, equals, value = word.partition("=")
        if not equals:
            value = rest.pop(0) if rest and _VALUE.match(rest[0]) else _GIVEN
        found[name] = value
    return found


def is_own(name: str, values: Values, headers: Mapping[int, Header]) -> bool:
    """Return whether a setting is meant to differ between ranks, by its name or its values.

    Values may be the ranks' own numbers, or texts that differ only by these.
    """
    if _OWN.search(name.strip("-").replace("-", "_").lower()):
        return True
    return bool(name) and any(
        len({_without(number, values.get(rank, "")) for rank, number in numbers.items()}) == 1
        for numbers in (
            {rank: rank for rank in headers},
            {rank: header.local_rank for rank, header in headers.items()},
        )
    )


def _without(number: int | None, value: str) -> str | None:
    """Return a value with marks for the rank's number; a text with both if it has none.

    A quantity such as 0.5 matches only if it is exactly that number.
    """
    if value == str(number):
        return _MARK
    if number is None or _QUANTITY.fullmatch(value):
        return f"{number} {value}"
    return re.sub(rf"(?<!\d){number}(?!\d)", _MARK, value)


def _backends(logs: Mapping[int, RankLog]) -> Mapping[str, Values]:
    """Return per group the backend that each member made it with."""
    found: dict[str, dict[int, str]] = {}
    for rank, log in logs.items():
        for record in log.groups:
            # Another tool's trace without calls of a group does not know its backend.
            if record.phase == "ready" and record.member and record.backend:
                found.setdefault(record.group, {})[rank] = record.backend
    return found


def ranks_by_value(values: Values, everybody: Iterable[int], absent: str) -> dict[str, list[int]]:
    """Return the ranks with each value; ``absent`` stands for ranks without one."""
    found: dict[str, list[int]] = {}
    for rank in everybody:
        found.setdefault(values.get(rank, absent), []).append(rank)
    return found


def _listed(values: Values, everybody: Iterable[int], absent: str) -> str:
    """Return ``2.13.0 on ranks 0-2, 2.12.1 on rank 3``; ``absent`` for ranks without a value."""
    by_value = ranks_by_value(values, everybody, absent)
    listed = [
        f"{words.brief(value, _LONGEST)} on {words.ranks(ranks)}"
        for value, ranks in list(by_value.items())[:_MOST]
    ]
    more = f" and {len(by_value) - _MOST} more" if len(by_value) > _MOST else ""
    return ", ".join(listed) + more
