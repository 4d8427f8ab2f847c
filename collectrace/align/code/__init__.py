"""What the source code says about a difference between two ranks.

The rooms read records; this one reads the programs that made them. ``files`` finds the function of
a stack frame, ``graph`` and ``lowering`` turn it into a control-flow graph, ``paths`` joins the
graphs of the functions on a few stacks, ``branches`` finds the branches that separate two calls,
``names`` and ``origins`` say what a condition depends on, and ``decide`` puts it together.
"""
