"""Phases from what layers compute: functional similarity, interchangeability, and the best tied map of a segment."""
