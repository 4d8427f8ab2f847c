"""Read rank files into the evidence of each rank."""
