"""What the source code says about a difference between two ranks.

The other rooms read records; this one reads the programs that made them. ``decide`` is its door: it
returns the statements that can have decided between two next calls.

- ``files`` finds the function of a stack frame.
- ``graph`` is the control-flow graph of a function; ``lowering`` and ``expressions`` build it.
- ``calls`` says which step of a function a frame is at, and which function a step must call.
- ``program`` keeps graphs and definitions; ``paths`` joins the functions on a few stacks.
- ``between`` is the part of these paths between two calls; ``branches`` finds what separates them.
- ``names``, ``conditions`` and ``slices`` follow a value back, to ``places`` where it comes in.
- ``lasting`` says whether a name still has the value that a statement used.
- ``origins`` is the table of what a value depends on.
"""
