"""Feature maps, River transformers whose outputs are the inputs of linear models."""
