"""Feature maps: River transformers, whose outputs linear learners use."""
