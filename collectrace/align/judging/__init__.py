"""Find what is wrong with a run, the suspects, and which findings are consequences."""
