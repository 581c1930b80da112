"""Takakura, Liew and Hasegawa: DP-FedEXP."""
