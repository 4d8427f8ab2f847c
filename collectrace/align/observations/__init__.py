"""What is no error by itself."""
