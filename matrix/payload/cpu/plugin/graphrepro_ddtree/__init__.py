"""DDTREE for SGLang as an out-of-tree plugin, with planted faults; SGLang finds `registration.register`."""

__version__ = "1.0"
