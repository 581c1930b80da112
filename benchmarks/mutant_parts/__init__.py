"""Parts of ``benchmarks/mutants.py``: what is changed, which tests run it, and the verdicts."""
