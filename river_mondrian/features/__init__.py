"""Feature maps: transformers, and what the learners of `linear` stand on."""
