"""What tests of streaming share."""

from shards import data  # noqa: F401
