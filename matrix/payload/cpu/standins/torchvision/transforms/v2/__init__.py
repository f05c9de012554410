"""The second version of the transforms: the same enumeration, and names that refuse."""

from sgl_kernel._absent import absent_names

from torchvision.transforms import InterpolationMode as InterpolationMode

__getattr__ = absent_names(__name__)
