"""Dtypes and arrays of the frameworks: names, bytes in memory, targets of reads, and conversions from NumPy."""
