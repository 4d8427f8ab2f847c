"""Evidence that is needed to judge is missing.

What it means
    A rank left no file, an unreadable or incomplete one, or one with lost lines, or its record ends
    early. Its calls are unknown, so nobody is blamed.

Example
    ::

        collectrace.enable()        # was not called on rank 1

Not to be confused with
    CT302, if the others show that the rank never started.

How to fix it
    Trace every rank, and collect the complete file of each. Check that no disk is full.
"""
