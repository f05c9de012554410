"""The attempt program: one fresh launch of the engine, its checks, its end, and the evidence of all three.

It runs beside the engine (in its environment or container), needs the standard library and aiohttp, and judges nothing.
"""
