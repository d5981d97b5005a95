"""Linear models, mixtures of experts, drift detection, quantile tracking and lifetime sweeps."""
