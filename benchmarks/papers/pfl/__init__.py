"""Bhaskar et al.: PFL, DP-SGD with one local epoch a round."""
