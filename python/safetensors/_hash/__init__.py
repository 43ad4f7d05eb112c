"""Manifests: digests of files and tensors. Checks the bytes that a load reads."""
