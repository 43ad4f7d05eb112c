"""Looks at the tensors of files: differences, statistics, and what is valid but unwise."""
