"""Feature maps: transformers, and inputs of linear learners."""
