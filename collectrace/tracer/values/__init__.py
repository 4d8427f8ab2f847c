"""What the variables of stopped code hold: read from outside, off the path of a call."""
