"""Fits with a penalty that has kinks: some weights are exactly 0."""
