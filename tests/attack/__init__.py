"""Attacks on models: what a user, the system or another thread may do at any moment."""
