"""What a saved surrogate needs on the hub: code for programs that have transformers and no raptor, and its metadata."""
