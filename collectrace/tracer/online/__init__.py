"""Let the ranks of a running job compare their streams through its store, and diagnose it."""
