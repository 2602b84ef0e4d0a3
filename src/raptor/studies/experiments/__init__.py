"""The studies, one module each: a module `k_curve.py` registers the study `k-curve`."""
