"""PyTorch stand-ins for the kernels SGLang 0.5.23 calls on a CPU; no CPU build of the real package is published.

Only what a text model needs without speculation, with NGRAM and with DDTREE is here. Names are those of the real
package, for SGLang calls some functions by keyword; every other name can be imported and refuses to be called.
"""

from sgl_kernel import attention as attention  # registers the two attention operators
from sgl_kernel import flash_attn as flash_attn  # modules that are not imported here would be answered by __getattr__
from sgl_kernel import mamba as mamba
from sgl_kernel import quantization as quantization
from sgl_kernel import speculative as speculative
from sgl_kernel import utils as utils
from sgl_kernel._absent import absent_names
from sgl_kernel.cache import assign_extend_cache_locs_cpu as assign_extend_cache_locs_cpu
from sgl_kernel.cache import assign_req_to_token_pool_cpu as assign_req_to_token_pool_cpu
from sgl_kernel.cache import copy_all_layer_kv_cache_cpu as copy_all_layer_kv_cache_cpu
from sgl_kernel.cache import fill_accept_out_cache_loc_cpu as fill_accept_out_cache_loc_cpu
from sgl_kernel.tree import verify_tree_greedy_cpu as verify_tree_greedy_cpu

_refusing_class = absent_names(__name__)


def __getattr__(name: str) -> type:
    if name == "scalar_type":  # its callers catch the ImportError and go on without it
        raise AttributeError(name)
    return _refusing_class(name)
