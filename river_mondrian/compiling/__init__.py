"""Compile kernels, and store the compiled code on disk."""
