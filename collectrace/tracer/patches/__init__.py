"""Wrap functions of torch to find out who issues a collective, and for what."""
