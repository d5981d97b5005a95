"""How much the trees of a forest change with a sample that they have not learned."""
