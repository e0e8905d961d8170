"""Data sets to try the methods on: six small real ones, and two simulators.

Each function returns a :class:`Dataset`, a named tuple with ``X``, ``y``, ``note`` and ``truth``.  The
sources and licences of the real data are in ``data/LICENCES.md`` beside the files, and in each ``note``.

Examples
--------
>>> from whichvars.datasets import load_uscrime
>>> data = load_uscrime()
>>> data.X.shape, data.y.name
((47, 15), 'log_crime')
"""

from whichvars.datasets._dataset import Dataset
from whichvars.datasets.loaders import (
    load_boston,
    load_breast_cancer,
    load_doctor_visits,
    load_growth,
    load_tecator,
    load_uscrime,
)
from whichvars.datasets.simulators import simulate_ar, simulate_blocks

__all__ = [
    "Dataset",
    "load_boston",
    "load_breast_cancer",
    "load_doctor_visits",
    "load_growth",
    "load_tecator",
    "load_uscrime",
    "simulate_ar",
    "simulate_blocks",
]
