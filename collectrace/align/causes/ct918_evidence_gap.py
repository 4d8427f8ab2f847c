"""Evidence that would be needed to judge is not there.

What it means
    A rank left no file, or one that cannot be read or is incomplete; it lost lines, or its record
    ends early. What it did cannot be known, so nobody is blamed for it.

Example
    ::

        collectrace.enable()        # was not called on rank 1

Not to be confused with
    CT302, if the others show that the rank never started.

How to fix it
    Collect the whole files of every rank, and trace all of them. See that no disk is full.
"""
