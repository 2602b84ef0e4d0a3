"""What a distillation costs, and what a budget would reach."""
