"""How kernels are compiled, and where what has been compiled is kept."""
