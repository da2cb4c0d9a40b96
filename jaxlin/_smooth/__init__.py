"""Smooth convex fits: their plan, frame, passes over the rows, solvers and certificate."""
