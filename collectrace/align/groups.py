"""Which process groups the ranks mean when they use a name, and where they disagree about one."""

from __future__ import annotations


def backend_for(backend: str, device: str) -> str:
    """The backend that serves a device type.

    ``backend`` is what a group record says: ``gloo``, or per device ``cpu:gloo,cuda:nccl``.
    """
    for part in backend.split(","):
        served, colon, name = part.partition(":")
        if not colon:
            return part.strip()
        if served.strip() == device:
            return name.strip()
    return ""
