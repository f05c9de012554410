"""Imported by SGLang on a CPU, never called there."""

from sgl_kernel._absent import absent_names

__getattr__ = absent_names(__name__)
