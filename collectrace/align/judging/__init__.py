"""What may be wrong, who is to blame, what followed from what."""
