"""The depth film."""
