"""Values and mathematics shared by several packages. Nothing here uses files, devices or processes."""
