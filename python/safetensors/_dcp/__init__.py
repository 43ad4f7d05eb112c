"""Reads and writes checkpoints of torch.distributed.checkpoint."""
