"""Files to what each rank recorded."""
