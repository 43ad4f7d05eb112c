"""Manifests: digests of files and tensors, and the check of what a load reads."""
