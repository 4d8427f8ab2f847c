"""Nobody waited for the work of an asynchronous call, or its tensor was written before.

What it means
    Until ``wait()`` returns, the collective reads and writes the tensor. What is read then may be
    the old value, the new one, or part of each, and errors go unseen.

Example
    ::

        dist.all_reduce(grads, async_op=True)       # the Work is thrown away
        optimizer.step()

Not to be confused with
    CT309, if the call never completes.

How to fix it
    Keep the Work, and call ``wait()`` on every rank before the tensor is used.
"""
