"""What learns from the numbers of cells: linear models, mixtures of experts, sweeps."""
