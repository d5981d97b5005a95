"""Attacks on models by what a user, the system or another thread may do at any moment."""
