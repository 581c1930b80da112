"""What ``benchmarks/speed.py`` runs."""
