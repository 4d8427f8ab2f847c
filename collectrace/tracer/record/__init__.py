"""One rank's record: what a call is, its number and digests, its line."""
