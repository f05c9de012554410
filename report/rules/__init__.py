"""Rules that look beyond one launch: where a failure shows, what it is set against, and what that leaves open. Pure."""
