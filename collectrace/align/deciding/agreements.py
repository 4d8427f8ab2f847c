"""Find the collectives with equal results on two ranks, from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collectrace.align.code.places import Agreements, Site
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey


class RecordedAgreements(Agreements):
    """Collectives that gave two ranks the same result before they diverged.

    ``calls`` holds the calls of each rank up to the last one that both made.
    """

    def __init__(
        self, case: Case, ranks: tuple[int, int], calls: Sequence[Sequence[Entry]]
    ) -> None:
        self._case = case
        self._ranks = ranks
        self._calls = [_by_site(those) for those in calls]

    def agreed(self, site: Site) -> bool:
        """Return whether every call from a line completed on both sides before the difference.

        Only groups that contain both sides count.
        """
        both = [calls.get(site, ()) for calls in self._calls]
        if not all(both) or {(one.key, one.seq) for one in both[0][-1:]} != {
            (one.key, one.seq) for one in both[1][-1:]
        }:
            return False
        return all(
            self._is_complete(rank, one)
            for rank, calls in zip(self._ranks, both, strict=True)
            for one in calls
        )

    def has_run(self, site: Site) -> bool:
        """Return whether a rank may have made a collective from a line.

        It may if calls were lost or not read, or if no call of the whole file was recorded.
        """
        lines = self._case.lines_with_calls
        return lines is None or site.line in lines.get(site.path, (site.line,))

    def _is_complete(self, rank: int, call: Entry) -> bool:
        if not isinstance(call.key, StreamKey):
            return False
        members = self._case.comparison.streams.get(call.key, ())
        log = self._case.log(rank)
        done = log.dones.get(call.key) if log is not None else None
        return set(self._ranks) <= set(members) and done is not None and done.seq >= call.seq


def _by_site(calls: Sequence[Entry]) -> Mapping[Site, Sequence[Entry]]:
    found: dict[Site, list[Entry]] = {}
    for one in calls:
        if one.stack:
            found.setdefault(Site(*chains.split(chains.site(one.stack[0]))), []).append(one)
    return found
