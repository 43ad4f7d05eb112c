"""Loads and saves in many processes: boxes of tensors, agreement, shared reads, and parts of files."""
