"""Training surrogates of tied blocks."""
