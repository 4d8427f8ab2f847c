"""Life signs: heartbeats, stalls, ends, and the processes that are started."""
