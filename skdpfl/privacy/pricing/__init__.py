"""From events to (epsilon, delta): what a composition costs, always on the safe side."""
