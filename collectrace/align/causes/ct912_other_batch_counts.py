"""The ranks had different numbers of batches, and nothing failed because of it.

What it means
    ``join()`` answered for the ranks that ran out, or no collective came after. In another run,
    with other calls, it may hang.

Example
    ::

        for batch in loader:        # 9 on rank 1, 10 on the others
            loss += model(batch)

Not to be confused with
    CT204, if a collective lacked its partners for it.

How to fix it
    Use DistributedSampler and ``drop_last=True``, or ``with model.join():``.
"""
