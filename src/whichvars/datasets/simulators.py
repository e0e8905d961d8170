"""Simulated data of any size, with known truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from whichvars.datasets._dataset import Dataset
from whichvars.errors import ArgumentTypeError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_AR_PATTERN = np.array([2, -3, 2, 2, -3, 3, -2, 3, -2, 3], dtype=float)
_STRONG = 4.0
_WEAK = 1.0


def simulate_ar(
    n: int = 500,
    p: int = 5000,
    correlation: float = 0.6,
    snr: float = 2.0,
    seed: int | np.random.Generator | None = 0,
) -> Dataset:
    r"""Ten effects among p columns whose correlation decays with their distance.

    The rows of X are independent draws from a normal distribution with mean 0 and
    :math:`\operatorname{cov}(x_i, x_j) = \rho^{|i-j|}`, and

    .. math::

        y = X\beta + \varepsilon, \qquad \varepsilon \sim N(0, \sigma^2 I_n), \qquad \sigma^2 = 1,

    .. math::

        \beta = \mathrm{snr}\,\sqrt{\sigma^2 \log(p) / n}\; b,

    where b begins with (2, −3, 2, 2, −3, 3, −2, 3, −2, 3), and all its other elements are 0.

    So the effects sit on the first ten columns, and ``snr`` says how far they stand out of what the best of p
    noise columns would reach; the literature takes values from 0.5 (hard to find) to 3.  This is the setting
    of Yang, Wainwright and Jordan (2016), which later papers reuse.  X and y are not standardised afterwards.

    Parameters
    ----------
    n : int
        Rows, at least 2.
    p : int
        Columns, at least 10.
    correlation : float
        :math:`\rho`, the correlation of neighbouring columns, between −1 and 1 (both excluded).  0 gives
        independent columns.
    snr : float
        Size of the effects; 0 gives a response of pure noise.
    seed : int, numpy.random.Generator or None
        Given to ``numpy.random.default_rng``; None draws new data at each call.

    Returns
    -------
    Dataset
        ``X`` of shape (n, p) with columns x0001, x0002, … (padded to the width of p), ``y`` of length n, and
        ``truth``, the p coefficients :math:`\beta`.

    References
    ----------
    Yang, Y., Wainwright, M. J. and Jordan, M. I. (2016). On the computational complexity of high-dimensional
    Bayesian variable selection. Annals of Statistics 44, 2497–2532.

    Zanella, G. and Roberts, G. (2019). Scalable importance tempering and Bayesian variable selection. Journal
    of the Royal Statistical Society B 81, 489–517.

    Griffin, J. E., Łatuszyński, K. and Steel, M. F. J. (2021). In search of lost mixing time: adaptive Markov
    chain Monte Carlo schemes for Bayesian variable selection with very large p. Biometrika 108, 53–69.

    Examples
    --------
    >>> from whichvars.datasets import simulate_ar
    >>> data = simulate_ar(n=100, p=200, correlation=0.6, snr=2.0, seed=1)
    >>> data.X.shape
    (100, 200)
    >>> list(data.truth.index[data.truth != 0])
    ['x001', 'x002', 'x003', 'x004', 'x005', 'x006', 'x007', 'x008', 'x009', 'x010']
    """
    n = _whole("n", n, 2)
    p = _whole("p", p, len(_AR_PATTERN))
    rho = _real("correlation", correlation)
    if not -1.0 < rho < 1.0:
        raise DataError(f"correlation must lie between -1 and 1 (both excluded), got {correlation!r}")
    snr = _real("snr", snr)
    if snr < 0.0:
        raise DataError(f"snr must not be negative, got {snr!r}")
    rng = _generator(seed)

    columns = rng.standard_normal((p, n))
    if rho != 0.0:
        innovation = math.sqrt(1.0 - rho * rho)
        for j in range(1, p):
            columns[j] = rho * columns[j - 1] + innovation * columns[j]
    beta = np.zeros(p)
    beta[: len(_AR_PATTERN)] = snr * math.sqrt(math.log(p) / n) * _AR_PATTERN
    note = (
        f"Simulated: n = {n}, p = {p}, normal columns with correlation {rho:g}^|i-j|, ten effects on the "
        f"first ten columns (snr = {snr:g}), noise variance 1, seed = {_seed_text(seed)}. After Yang, "
        "Wainwright and Jordan (2016). No licence needed."
    )
    return _simulated(columns, beta, 1.0, rng, note)


def simulate_blocks(
    n: int = 60,
    p: int = 22576,
    block: int = 20,
    correlation: float = 0.9,
    effects: int | Sequence[float] | NDArray[np.floating] = 2,
    weak: int = 0,
    noise: float = 1.0,
    seed: int | np.random.Generator | None = 0,
) -> Dataset:
    r"""A few effects among blocks of strongly correlated columns, like genes that act together.

    The columns fall into consecutive blocks of ``block`` columns (the last may be shorter): column j, counted
    from 0, is in block ``j // block``.  With independent standard normal :math:`f` and :math:`e`, column j in
    block b has in row i

    .. math::

        x_{ij} = \sqrt{\rho}\, f_{ib} + \sqrt{1 - \rho}\, e_{ij},

    so every column is standard normal, two columns of a block have correlation :math:`\rho`, and columns of
    different blocks are independent.  The response is :math:`y = X\beta + \varepsilon` with
    :math:`\varepsilon \sim N(0, \mathrm{noise}^2 I_n)`.

    The non-zero coefficients are put on random columns of **distinct** random blocks, at most one in a block.
    Sizes are in units of :math:`u = \mathrm{noise}\,\sqrt{\log(p)/n}`:

    * a strong effect is :math:`\pm 4u`, and can be told from noise once the other strong ones are known;
    * a weak effect is :math:`\pm u`, less than the :math:`\sqrt{2}\,u` or so that the largest of p estimated
      effects of pure noise columns reaches, so that weak effects can hardly be found one by one.

    Signs are random.  The more effects there are, the more each of them hides the others: for n = 60 and
    p = 22,576, two strong ones stand out in the marginal correlations, of eight some do not.

    Parameters
    ----------
    n : int
        Rows, at least 2.  The default n and p are the size of the paper's gene expression (PCR) example.
    p : int
        Columns, at least 2.
    block : int
        Columns in a block; 1 gives independent columns.
    correlation : float
        :math:`\rho`, the correlation within a block, from 0 to 1.  At 1 the columns of a block are identical.
    effects : int or sequence of float
        How many strong effects there are; or the coefficients themselves, with sign, instead of the size
        :math:`\pm 4u` (their columns are still chosen at random).
    weak : int
        How many weak effects there are besides.
    noise : float
        Standard deviation of the noise, greater than 0.
    seed : int, numpy.random.Generator or None
        Given to ``numpy.random.default_rng``; None draws new data at each call.

    Returns
    -------
    Dataset
        ``X`` of shape (n, p) with columns x00001, x00002, … (padded to the width of p), ``y`` of length n,
        and ``truth``, the p coefficients :math:`\beta`.

    References
    ----------
    Griffin, J. E., Łatuszyński, K. and Steel, M. F. J. (2014). Individual adaptation: an adaptive MCMC scheme
    for variable selection problems. arXiv:1412.6760 (for the size of the problem; the design is our own).

    Examples
    --------
    >>> from whichvars.datasets import simulate_blocks
    >>> data = simulate_blocks(n=50, p=100, block=10, effects=2, weak=3, seed=1)
    >>> data.X.shape, int((data.truth != 0).sum())
    ((50, 100), 5)
    >>> data = simulate_blocks(n=50, p=100, block=10, effects=[1.5, -2.0], seed=1)
    >>> sorted(float(b) for b in data.truth[data.truth != 0])
    [-2.0, 1.5]
    """
    n = _whole("n", n, 2)
    p = _whole("p", p, 2)
    block = _whole("block", block, 1)
    rho = _real("correlation", correlation)
    if not 0.0 <= rho <= 1.0:
        raise DataError(f"correlation must lie between 0 and 1, got {correlation!r}")
    given = _effects(effects)
    strong = given if isinstance(given, int) else len(given)
    weak = _whole("weak", weak, 0)
    noise = _real("noise", noise)
    if noise <= 0.0:
        raise DataError(f"noise must be greater than 0, got {noise!r}")
    blocks = -(-p // block)
    if strong + weak > blocks:
        raise DataError(
            f"effects and weak ask for {strong} + {weak} effects in distinct blocks, but p = {p} and "
            f"block = {block} give only {blocks} blocks; ask for fewer effects or make the blocks smaller"
        )
    rng = _generator(seed)

    columns = rng.standard_normal((p, n))
    columns *= math.sqrt(1.0 - rho)
    factors = rng.standard_normal((blocks, n))
    columns += np.repeat(math.sqrt(rho) * factors, block, axis=0)[:p]

    chosen = rng.choice(blocks, size=strong + weak, replace=False)
    widths = np.minimum(block, p - chosen * block)
    where = chosen * block + rng.integers(0, widths)
    unit = noise * math.sqrt(math.log(p) / n)
    sizes = unit * np.repeat([_STRONG, _WEAK], [strong, weak]) * rng.choice([-1.0, 1.0], size=strong + weak)
    if not isinstance(given, int):
        sizes[:strong] = given
    beta = np.zeros(p)
    beta[where] = sizes
    note = (
        f"Simulated: n = {n}, p = {p}, normal columns in {blocks} blocks of {block} with correlation {rho:g} "
        f"within a block, {strong} strong and {weak} weak effects in distinct blocks, noise standard "
        f"deviation {noise:g}, seed = {_seed_text(seed)}. No licence needed."
    )
    return _simulated(columns, beta, noise, rng, note)


def _simulated(columns: Floats, beta: Floats, noise: float, rng: np.random.Generator, note: str) -> Dataset:
    """Draw the response for the design whose *rows* are ``columns``, and name everything."""
    import pandas as pd

    p, n = columns.shape
    support = np.flatnonzero(beta)
    y = beta[support] @ columns[support] + noise * rng.standard_normal(n)
    width = len(str(p))
    names = [f"x{j:0{width}d}" for j in range(1, p + 1)]
    X = pd.DataFrame(columns.T, columns=names)
    return Dataset(X, pd.Series(y, name="y"), note, pd.Series(beta, index=X.columns, name="coefficient"))


def _whole(name: str, value: object, least: int) -> int:
    """Return ``value`` as an int of at least ``least``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise ArgumentTypeError(f"{name} must be a whole number, got {value!r} ({type(value).__name__})")
    if value < least:
        raise DataError(f"{name} must be at least {least}, got {value!r}")
    return int(value)


def _real(name: str, value: object) -> float:
    """Return ``value`` as a finite float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise ArgumentTypeError(f"{name} must be a number, got {value!r} ({type(value).__name__})")
    number = float(value)
    if not math.isfinite(number):
        raise DataError(f"{name} must be finite, got {value!r}")
    return number


def _effects(value: object) -> int | Floats:
    """Return the number of strong effects, or the coefficients as a vector."""
    if isinstance(value, Integral):
        return _whole("effects", value, 0)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise ArgumentTypeError(
            f"effects must be a whole number or a list of numbers, got {value!r} ({type(value).__name__})"
        )
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise DataError(f"effects must be one-dimensional, got an array of shape {value.shape}")
    sizes = np.array([_real(f"effects[{i}]", size) for i, size in enumerate(value)], dtype=float)
    for i in np.flatnonzero(sizes == 0.0):
        raise DataError(f"effects[{i}] must not be 0; leave it out, or give another number")
    return sizes


def _generator(seed: object) -> np.random.Generator:
    """Make the random number generator of one data set."""
    if seed is None or isinstance(seed, np.random.Generator):
        return np.random.default_rng(seed)
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, Integral):
        raise ArgumentTypeError(
            f"seed must be a whole number, a numpy Generator or None, got {seed!r} ({type(seed).__name__})"
        )
    return np.random.default_rng(_whole("seed", seed, 0))


def _seed_text(seed: object) -> str:
    return "a generator" if isinstance(seed, np.random.Generator) else str(seed)
