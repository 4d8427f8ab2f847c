"""Find what every rank was doing when its evidence ends, and which rank waits for which."""
