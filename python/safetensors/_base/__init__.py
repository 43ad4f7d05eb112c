"""Options of arguments, and paths. Knows no tensors."""
