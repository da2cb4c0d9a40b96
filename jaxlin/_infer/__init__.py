"""What is said of coefficients: their covariance, and whether they are finite."""
