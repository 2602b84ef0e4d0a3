"""Charts, tables and HTML views."""
