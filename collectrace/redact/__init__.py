"""Logs that can be given away: what is the user's in them has another name, everywhere the same."""
