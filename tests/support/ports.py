"""Ports for the stores of jobs."""

from __future__ import annotations

import socket


def hold() -> socket.socket:
    """Return a socket that keeps a port from everybody else, but from the job's store.

    It is bound to every address, as the store will be: gloo, bound to the host's own address,
    would be given the port of a socket that is bound to the loopback only.
    """
    is_dual = socket.has_dualstack_ipv6()
    port = socket.socket(socket.AF_INET6 if is_dual else socket.AF_INET)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_dual:
        port.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    port.bind(("::" if is_dual else "0.0.0.0", 0))
    return port
