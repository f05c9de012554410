"""Imported by SGLang or transformers, never called for a text model."""

from sgl_kernel._absent import absent_names

__getattr__ = absent_names(__name__)
