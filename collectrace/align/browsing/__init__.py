"""Asked of logs beside the verdict: which runs there are, what one rank did, what changed."""
