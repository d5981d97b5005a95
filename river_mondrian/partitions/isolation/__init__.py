"""Trees that isolate each of a few points of a pool by cuts parallel to the axes."""
