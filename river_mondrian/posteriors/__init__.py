"""What is kept per cell: labels, targets, statistics, counts and volumes."""
