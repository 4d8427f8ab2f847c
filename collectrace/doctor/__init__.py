"""What can be learned of a job from where it runs, or ran, and what to set for the next time.

Reads files and ``/proc``, and asks NCCL RAS, which is there to be asked: no process is attached to,
stopped or written to. Never imports torch.
"""

from __future__ import annotations
