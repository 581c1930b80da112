"""Questions to a plan: what its silos release, what an outsider sees, how much noise it needs."""
