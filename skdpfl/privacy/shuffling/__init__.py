"""Privacy amplification by a shuffler between silos and server: bounds with proofs."""
