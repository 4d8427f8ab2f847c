"""``join()`` ended the job when the first rank ran out of inputs, as configured.

What it means
    ``throw_on_early_termination=True`` raises on every rank at the same iteration. That is what it
    is for.

Example
    ::

        with model.join(throw_on_early_termination=True): ...

Not to be confused with
    CT302, if a rank raised for another reason.

How to fix it
    Catch the RuntimeError around the loop to go on after it.
"""
