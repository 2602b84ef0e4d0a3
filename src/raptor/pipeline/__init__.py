"""The whole pipeline, from a model to a page."""
