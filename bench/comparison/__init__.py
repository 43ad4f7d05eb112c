"""What bench/compare.py is made of."""
