"""Files, devices, processes, progress and optional imports."""
