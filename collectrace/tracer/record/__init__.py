"""The record of one rank: its calls, their numbers and digests, and their lines."""
