"""What is counted while chains run: variables, sizes, models and averages."""
