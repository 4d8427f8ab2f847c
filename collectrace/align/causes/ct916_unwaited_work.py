"""Nobody waited for an asynchronous call, or its tensor was written before it completed.

What it means
    Until ``wait()`` returns, the collective reads and writes the tensor. A read before that returns
    the old value, the new one, or part of each. Errors stay unnoticed.

Example
    ::

        dist.all_reduce(grads, async_op=True)       # the Work is thrown away
        optimizer.step()

Not to be confused with
    CT309, if the call never completes.

How to fix it
    Keep the Work, and call ``wait()`` on every rank before the tensor is used.
"""
