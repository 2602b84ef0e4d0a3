"""Adapters that read models of other libraries as depth flows."""
