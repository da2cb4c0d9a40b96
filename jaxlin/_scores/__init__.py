"""What is made of scores and labels alone: ranks, bins, calibrators."""
