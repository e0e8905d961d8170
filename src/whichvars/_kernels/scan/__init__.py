"""The probabilities of all single changes of a model at once, and rates made from them."""
