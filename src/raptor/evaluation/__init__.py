"""How close a surrogate is to its teacher, and what it costs."""
