"""What every rank was doing when its evidence ends, and which waits for which."""
