"""Opens files as one checkpoint, and reads many tensors at once."""
