"""Wrappers on functions of torch: who issues a collective, and what for."""
