"""What a budget would reach."""
