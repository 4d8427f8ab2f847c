"""A shuffling sampler never got the epoch.

What it means
    ``DistributedSampler`` shuffles by its epoch. Without ``set_epoch`` each epoch has the same
    order.

Example
    ::

        for epoch in range(10):
            for batch in loader: ...        # sampler.set_epoch(epoch) is missing

Not to be confused with
    CT912, if the ranks had different numbers of batches.

How to fix it
    Call ``sampler.set_epoch(epoch)`` before each epoch.
"""
