"""What a picture of a run shows: see :mod:`collectrace.overview`."""

from collectrace.align.overview.build import build

__all__ = ["build"]
