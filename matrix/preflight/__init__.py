"""The host against a plan before any GPU time is spent, and the health of its GPUs around every attempt."""
