"""Lowy and Razaviyayn, ICLR 2023: ISRL-DP."""
