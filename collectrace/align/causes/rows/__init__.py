"""The table of causes: one file for each family of codes, one row for each cause."""
