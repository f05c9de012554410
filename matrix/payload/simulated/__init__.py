"""The simulated engine: a scripted server with SGLang's HTTP surface, to test a harness with.

No model runs. Tokens come from a hash, times and failures from a script; see `docs/simulated-engine.md`.
"""
