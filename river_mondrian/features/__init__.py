"""Feature maps: transformers, and what linear learners stand on."""
