"""Group process groups by mesh dimension, and ranks by their stage.

A job with data, tensor, expert and pipeline parallelism has many groups. Those of one mesh
dimension have one description (``init_device_mesh`` calls it ``mesh_tp``) and one size. Their ranks
run one program, unless they are pipeline stages, which send messages to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collectrace.align.reading.evidence import RunEvidence
from collectrace.ops import ANY_SOURCE

NAMELESS = ("", "undefined")
"""Descriptions without meaning; torch uses the second if the user gives none."""


class Kinship(NamedTuple):
    """The common properties of sister groups."""

    label: str
    """Their description; otherwise the line that requested them, or the group's name."""
    size: int


class Dimension(NamedTuple):
    """One of a rank's groups, identified by its role for the rank, not by its name."""

    kinship: Kinship
    ordinal: int
    """The index among the rank's groups of one kinship, in the order of their creation."""


class Stage(NamedTuple):
    """The position of a rank among those that messages connect, directly or through others."""

    place: int
    size: int


ALONE = Stage(0, 1)
"""The stage of a rank that sends no messages."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The groups of a run by dimension, and its ranks by stage."""

    kinships: Mapping[str, Kinship]
    """By the unique name of a group."""
    of_ranks: Mapping[int, Mapping[str, Dimension]]
    """Per rank: its groups, by name."""
    stages: Mapping[int, Stage]

    def stage(self, rank: int) -> Stage:
        """Return a rank's stage."""
        return self.stages.get(rank, ALONE)

    def sisters(self, name: str, groups: Iterable[str]) -> list[str]:
        """Return the groups of the same kinship, including the group itself."""
        return [other for other in groups if self.kinships.get(other) == self.kinships[name]]

    def same_stages(self, one: Iterable[int], two: Iterable[int]) -> bool:
        """Return whether the ranks of two groups are in the same stages of their pipelines."""
        return sorted(map(self.stage, one)) == sorted(map(self.stage, two))


def dimensions(evidence: RunEvidence) -> Dimensions:
    """Return the dimensions and stages of a run."""
    kinships = _kinships(evidence)
    of_ranks: dict[int, dict[str, Dimension]] = {}
    ranks = sorted({*evidence.logs, *(r for g in evidence.groups.values() for r in g.ranks)})
    for rank in ranks:
        log = evidence.logs.get(rank)
        asked = dict.fromkeys(g.group for g in log.groups) if log is not None else {}
        counts: dict[Kinship, int] = {}
        mine = of_ranks[rank] = {}
        for name in (*asked, *(n for n in evidence.groups if n not in asked)):
            info = evidence.groups.get(name)
            if info is not None and rank in info.ranks:
                kinship = kinships[name]
                mine[name] = Dimension(kinship, counts.get(kinship, 0))
                counts[kinship] = counts.get(kinship, 0) + 1
    return Dimensions(kinships, of_ranks, _stages(evidence))


def _kinships(evidence: RunEvidence) -> dict[str, Kinship]:
    sites: dict[str, str] = {}
    for log in evidence.logs.values():
        for group in log.groups:
            if group.site:
                sites.setdefault(group.group, group.site)
    return {
        name: Kinship(
            sites.get(name, name) if info.description in NAMELESS else info.description,
            len(info.ranks),
        )
        for name, info in evidence.groups.items()
    }


def _stages(evidence: RunEvidence) -> dict[int, Stage]:
    """Return stages of ranks that messages connect, numbered in rank order."""
    linked: dict[int, set[int]] = {}
    for rank, log in evidence.logs.items():
        for key in log.last_channel_seq:
            for end in {key.source, key.destination} - {ANY_SOURCE}:
                linked.setdefault(rank, set()).add(end)
                linked.setdefault(end, set()).add(rank)
    found: dict[int, Stage] = {}
    for rank in linked:
        if rank in found:
            continue
        part, todo = {rank}, [rank]
        while todo:
            new = linked[todo.pop()] - part
            part |= new
            todo += new
        found |= {member: Stage(n, len(part)) for n, member in enumerate(sorted(part))}
    return found
