"""Rows: prepared, in blocks, over devices, from streams; and derivatives of what they give."""
