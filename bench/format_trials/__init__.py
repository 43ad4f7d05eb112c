"""The formats and the experiments of bench/formats.py."""
