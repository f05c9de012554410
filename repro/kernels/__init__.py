"""The verify-attention kernel alone: asked without a server, and mostly without a GPU.

This side plans the cases, starts the programs of `beside_torch/` in the environment that has torch, Triton and SGLang,
and records what they say. It imports none of those packages itself.
"""
