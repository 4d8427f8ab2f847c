"""The ranks had different numbers of batches, and nothing failed because of it.

What it means
    ``join()`` answered for the ranks that ran out of batches, or no collective followed. With other
    calls, the job may hang.

Example
    ::

        for batch in loader:        # 9 on rank 1, 10 on the others
            loss += model(batch)

Not to be confused with
    CT204, if a collective lacked partners because of it.

How to fix it
    Use DistributedSampler and ``drop_last=True``, or ``with model.join():``.
"""
