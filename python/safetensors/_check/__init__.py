"""Differences, statistics and findings of lint for the tensors of files."""
