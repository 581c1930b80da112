"""Chang, Seif and Tandon, CISS 2022: DP-SCAFFOLD with noise that decays."""
