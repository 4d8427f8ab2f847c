"""Read the values of variables in stopped code from outside, never during a call."""
