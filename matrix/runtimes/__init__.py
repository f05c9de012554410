"""Runtimes: where an attempt runs. They start it, watch it, stop it, and say what happens when their owner dies."""
