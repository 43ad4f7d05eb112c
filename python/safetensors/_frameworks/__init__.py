"""Makes the functions that the modules of the frameworks have in common."""
