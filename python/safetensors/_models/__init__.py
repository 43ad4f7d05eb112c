"""Fills torch models with tensors that are read when their values are used."""
