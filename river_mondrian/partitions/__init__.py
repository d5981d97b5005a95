"""Random partitions of space, which map samples to cells."""
