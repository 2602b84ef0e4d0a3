"""Small-scale studies: where phases come from, and what surrogates need."""
