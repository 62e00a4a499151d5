"""One sub-command per library, each a thin call; their heavy imports are inside the functions."""
