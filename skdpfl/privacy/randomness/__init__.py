"""Where randomness comes from: streams of words, exact normals on a grid, samples of records."""
