"""From events to (epsilon, delta): upper bounds of the price of a composition."""
