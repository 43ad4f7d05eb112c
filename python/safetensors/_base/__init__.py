"""Options of arguments, paths, and the tables that notebooks show. Knows no tensors."""
