"""Hinge losses: interior point methods, and the gap that proves an optimum."""
