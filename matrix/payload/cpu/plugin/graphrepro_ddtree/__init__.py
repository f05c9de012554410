"""DDTREE for SGLang as an out-of-tree plugin, with planted faults. Light to import: SGLang finds `registration.register`."""

__version__ = "1.0"
