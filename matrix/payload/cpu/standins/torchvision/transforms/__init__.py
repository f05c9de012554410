"""The one enumeration that transformers and SGLang read at import; any other name refuses."""

import enum

from sgl_kernel._absent import absent_names


class InterpolationMode(enum.Enum):
    """Names and values of the real enumeration."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


__getattr__ = absent_names(__name__)
