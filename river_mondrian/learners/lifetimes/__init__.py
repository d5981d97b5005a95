"""Learning with the Mondrian kernel at all lifetimes in one sweep (Balog et al. 2016)."""
