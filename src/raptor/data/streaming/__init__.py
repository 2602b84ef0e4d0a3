"""Images in shards, read forward: tar shards, and tables that are not copied to disk."""
