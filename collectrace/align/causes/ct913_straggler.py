"""One rank kept the others waiting, in most of its calls.

What it means
    The job is right, and slower than it need be: a slower machine or disk, or more work on that
    rank.

Example
    ::

        batch = transform(next(loader))     # takes twice as long on rank 3

Not to be confused with
    CT302, if the rank did not come at all.

How to fix it
    Look at what the rank does between the calls that the finding names.
"""
