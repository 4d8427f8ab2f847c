"""Versions, environment, code or devices differ between ranks.

What it means
    Different settings may lead to different calls. A difference alone is not an error.

Example
    ::

        NCCL_ALGO=Ring on node1, Tree on node2

Not to be confused with
    A cause that depends on the environment (CT102).

How to fix it
    Start all ranks from one image, with one environment.
"""
