"""Procedural images with class labels, masks and depth."""
