"""Judges: the evidence of a check -> its state. Pure; they run on the host, after the attempt."""
