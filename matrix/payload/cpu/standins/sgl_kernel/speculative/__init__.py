"""The one function that SGLang takes from this submodule on a CPU; any other name refuses."""

from sgl_kernel._absent import absent_names
from sgl_kernel.tree import reconstruct_indices_from_tree_mask as reconstruct_indices_from_tree_mask

__getattr__ = absent_names(__name__)
