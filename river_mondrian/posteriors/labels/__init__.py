"""Label posteriors: hierarchical normalized stable processes over classes at a tree's nodes."""
