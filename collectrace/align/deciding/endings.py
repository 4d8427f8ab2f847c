"""What a rank did if it made no further call: it finished, raised, or is somewhere else."""

from __future__ import annotations

from collectrace import dumps
from collectrace.align.code.between import Finished, Raised
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing
from collectrace.dumps import MAIN
from collectrace.records import ENDED, INTERRUPTED


def ending(standing: Standing) -> Finished | Raised | Stack | None:
    """Return how a rank ended, or the stack at which it was seen last; None: it is not known.

    An exception that says that other ranks let it down tells nothing about the rank.
    """
    log = standing.log
    if log is None or standing.by_peers:
        return None
    leaving = log.exit
    if leaving is not None and leaving.reason == "finished":
        # sys.exit() is an exception, too: its line is known.
        return Finished()
    if leaving is not None and leaving.reason == "exception":
        read = {one.reason: values for one, values in log.values.items() if one.thread == MAIN}
        values = read.get(ENDED) or read.get(INTERRUPTED)
        if values is not None and values.functions and not values.functions_left_out:
            return Raised(frames.of_values(values.functions))
        sites = [leaving.site or "", *leaving.through]
        return Raised(frames.of_sites(sites)) if leaving.site else None
    return _last_seen(standing)


def _last_seen(standing: Standing) -> Stack | None:
    """Return where a rank was that neither finished nor raised."""
    log = standing.log
    if log is None:
        return None
    dump = log.stack_dumps.end or log.stack_dumps.held
    stall = log.stall
    if dump is None and (stall is None or stall.t < (log.last_call.t if log.last_call else 0)):
        return None
    stacks = dump.stacks if dump is not None else stall.stacks if stall is not None else {}
    own = dumps.own(detail.at_work(stacks))
    return frames.of_stack(reversed(own)) or None
