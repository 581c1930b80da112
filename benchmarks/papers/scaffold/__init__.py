"""Noble, Bellet and Dieuleveut, AISTATS 2022: DP-SCAFFOLD."""
