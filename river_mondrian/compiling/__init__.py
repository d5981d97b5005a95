"""Compiling kernels, and keeping the compiled code on disk."""
