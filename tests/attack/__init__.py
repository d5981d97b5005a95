"""Attacks on models: interruptions, failed allocations, damaged files and other threads."""
