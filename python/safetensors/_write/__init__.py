"""Writes one file, or a model of several files."""
