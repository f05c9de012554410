"""Models for SGLANG_EXTERNAL_MODEL_PACKAGE, which makes SGLang import its 200 other model files only on demand."""
