"""vdiag: what broke in a failed vLLM server, where its log says so, and what to type now."""

__version__ = "0.1.0"
