"""Show the source lines that matter for a finding, and what ranks did there.

Start reading at ``build``, which adds excerpts to findings. ``marks`` makes the notes of each line
from the calls, ends and waits of the ranks and from the decisions. ``iterations`` finds the loop
iteration that ranks were in. ``stacks`` shows where the ranks are that others wait for.
"""
