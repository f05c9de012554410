"""Plan and execute the matrix."""
