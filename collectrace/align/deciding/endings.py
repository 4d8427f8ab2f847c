"""Find how a rank ended if it made no further call: finished, raised, or seen elsewhere."""

from __future__ import annotations

from collectrace import dumps
from collectrace.align.code.between import Finished, Raised
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames
from collectrace.align.ranks import detail
from collectrace.align.ranks.last_seen import last_seen
from collectrace.align.ranks.standing import Standing
from collectrace.dumps import MAIN
from collectrace.records import ENDED


def find_ending(standing: Standing) -> Finished | Raised | Stack | None:
    """Return how a rank ended, or its last known stack; None if neither is known.

    An exception that only reports the failure of other ranks is ignored.
    """
    log = standing.log
    if log is None or standing.by_peers:
        return None
    leaving = log.exit
    if leaving is not None and leaving.reason == "finished":
        if detail.left_by_exit(standing):  # it raises SystemExit
            return Raised(frames.parse_sites([leaving.site or "", *leaving.through]))
        return Finished()
    if leaving is not None and leaving.reason == "exception" and not leaving.is_interrupt:
        read = {one.reason: values for one, values in log.values.items() if one.thread == MAIN}
        values = read.get(ENDED)
        if values is not None and values.functions and not values.functions_left_out:
            return Raised(frames.parse_values(values.functions))
        sites = [leaving.site or "", *leaving.through]
        return Raised(frames.parse_sites(sites)) if leaving.site else None
    return _last_seen(standing)


def _last_seen(standing: Standing) -> Stack | None:
    seen = last_seen(standing.log)
    own = dumps.own(detail.at_work(seen.stacks)) if seen is not None else ()
    own = [frame for frame in own if not frame.startswith("<")]  # of no file: <string>
    return frames.parse_stack(reversed(own)) or None
