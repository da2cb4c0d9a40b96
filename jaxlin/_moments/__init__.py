"""Moments of classes, and what closed forms make of them."""
