"""The kernel: what happened, on what, can it be trusted, can it be run again."""
