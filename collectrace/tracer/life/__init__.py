"""Life signs: heartbeats, stalls, exits, and the processes that this one starts."""
