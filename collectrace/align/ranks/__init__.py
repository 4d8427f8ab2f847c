"""What every rank was doing, and who waits for whom."""
