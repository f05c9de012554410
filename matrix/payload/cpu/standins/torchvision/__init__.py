"""Stand-in: SGLang and transformers import this package, a text model uses nothing of it.

The published builds are made for other builds of PyTorch than the CPU one used here. The `dist-info` folder beside
this package is what transformers reads the version from.
"""

from sgl_kernel._absent import absent_names

__version__ = "0.28.0"
__getattr__ = absent_names(__name__)
