"""Label posteriors: hierarchical normalized stable processes over the classes of a tree's nodes."""
