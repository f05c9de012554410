"""Programs that run where torch, Triton and SGLang are installed, started by `start.py`.

They import nothing of the rest of graphrepro: the environment they run in does not have it.
"""
