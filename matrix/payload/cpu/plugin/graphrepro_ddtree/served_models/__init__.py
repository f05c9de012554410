"""Models for SGLANG_EXTERNAL_MODEL_PACKAGE: with it SGLang imports its own 200 model files only when another one is asked for."""
