"""Compiled functions over named tuples of arrays: numpy, math, numba and nothing else."""
