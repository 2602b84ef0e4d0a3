"""What the verbs do: load, measure, draw, save."""
