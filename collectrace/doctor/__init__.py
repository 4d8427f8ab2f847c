"""Find what can be learned about a job where it runs or ran, and what to set for the next run.

Reads files and ``/proc``, and queries NCCL RAS. Attaches to no process, stops none and writes to
none. Never imports torch.
"""

from __future__ import annotations
