"""What was learnt: inclusion probabilities, models, coefficients, predictions, and whether they can be trusted."""
