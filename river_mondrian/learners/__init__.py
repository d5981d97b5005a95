"""Linear models, mixtures of experts, drift detection, and the Mondrian kernel at all lifetimes."""
