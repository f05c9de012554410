"""The environment probe: on what an attempt runs, told from beside it. It names no host, user, path or address."""
