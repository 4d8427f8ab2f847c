"""What the source code says about a difference between two ranks.

The other packages read records. This one reads the programs that wrote them. Start at ``decide``:
it returns the statements that can have decided between two next calls.

- ``files`` finds the function of a stack frame.
- ``graph`` is the control-flow graph of a function; ``lowering`` and ``expressions`` build it.
- ``calls`` finds the step of a function that a frame is at, and the function that a step calls.
- ``program`` caches graphs and definitions; ``paths`` joins the functions on a few stacks.
- ``between`` selects the paths between two calls; ``branches`` finds what separates them.
- ``names``, ``conditions`` and ``slices`` trace a value back to the ``places`` it comes from.
- ``lasting`` finds whether a name still has the value that a statement used.
- ``origins`` is the table of what a value depends on.
"""
