"""What bench/gpu.py is made of."""
