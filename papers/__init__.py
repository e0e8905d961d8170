"""Published results, made again."""
