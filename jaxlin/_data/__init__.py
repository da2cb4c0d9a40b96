"""Rows: prepared, in blocks, and from streams."""
