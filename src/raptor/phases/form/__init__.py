"""The form of a similarity matrix: smooth drifts, blocks, and hybrids of both."""
