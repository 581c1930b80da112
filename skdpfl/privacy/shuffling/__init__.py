"""What a shuffler between the silos and the server is worth: bounds with proofs."""
