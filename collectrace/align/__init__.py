"""Post mortem: rank files in, findings out. Never imports torch."""

from collectrace.align.alignment import align

__all__ = ["align"]
