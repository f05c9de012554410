"""Coding tasks: their questions and hidden tests, code found in answers, and the container that it runs in."""
