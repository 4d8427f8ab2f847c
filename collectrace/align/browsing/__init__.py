"""Read logs for other purposes than a verdict: list runs, show one rank's calls, compare runs."""
