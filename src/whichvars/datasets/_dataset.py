"""What every loader and simulator returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


class Dataset(NamedTuple):
    """Covariates, a response and a note about them.

    Attributes
    ----------
    X : pandas.DataFrame
        The covariates, n rows by p named columns, all of them floats without missing values.
    y : pandas.Series
        The response, n values with the index of ``X`` and a name: numbers, or words if there are two classes.
    note : str
        What the data are, n and p, where they come from and under which licence.
    truth : pandas.Series or None
        For simulated data the true coefficients, indexed by the columns of ``X``; None for real data.

    Examples
    --------
    >>> from whichvars.datasets import simulate_ar
    >>> X, y, note, truth = simulate_ar(n=20, p=30)
    >>> X.shape, y.shape, truth.shape
    ((20, 30), (20,), (30,))
    """

    X: pd.DataFrame
    y: pd.Series
    note: str
    truth: pd.Series | None = None
