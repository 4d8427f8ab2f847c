"""Signs of life: heartbeats, stalls, exits, and the processes that a traced one starts."""
