"""Statistics per cell: labels, targets, cell numbers, displacements and distances."""
