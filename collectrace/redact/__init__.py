"""Make copies of logs without the user's names: placeholders, the same everywhere."""
