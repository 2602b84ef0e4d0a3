"""Models as depth flows: teachers, surrogates and the project's own ViT."""
