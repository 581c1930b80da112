"""Randomness: streams of words, integer normals on a grid, samples of records."""
