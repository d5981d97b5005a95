"""Target posteriors: hierarchical Gaussians by message passing, or plain means."""
