"""A surrogate in a few numbers: its name, and what stands at the top of the page."""
