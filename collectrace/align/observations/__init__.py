"""What is worth knowing of a run and no error by itself."""
