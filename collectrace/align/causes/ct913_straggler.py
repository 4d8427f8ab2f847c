"""One rank kept the others waiting, in most of its calls.

What it means
    The job is correct, but slower than necessary. The rank has a slower machine or disk, or more
    work.

Example
    ::

        batch = transform(next(loader))     # takes twice as long on rank 3

Not to be confused with
    CT302, if the rank never made the call.

How to fix it
    Check what the rank does between the calls that the finding names.
"""
