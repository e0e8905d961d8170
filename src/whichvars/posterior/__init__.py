"""Posteriors: inclusion probabilities, models, coefficients, predictions, and diagnostics of their accuracy."""
