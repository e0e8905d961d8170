r"""``estimate_df``: the degrees of freedom ν of Student noise, and results averaged over them.

ν has one of a few values :math:`\nu_l`. Its prior is the gamma distribution of shape 2 and rate 0.1 that Juárez and Steel (2010) use, with density :math:`\nu e^{-0.1\nu}/100`, above 2: each
value has the mass between the middles of its neighbours on either side, the first one that from 2 on and the last one all the rest. There is one posterior for each value, and

.. math:: p(\nu_l \mid y) \propto p(\nu_l)\, p(y \mid \nu_l), \qquad p(y \mid \nu_l) = \sum_\gamma p(\gamma)\, p(y \mid \gamma, \nu_l), \qquad
          p(\gamma \mid y) = \sum_l p(\nu_l \mid y)\, p(\gamma \mid y, \nu_l) .

Log evidences of posteriors are relative to their null models, which have different ν here, so that log p(y | null model, ν) is added to them.

Errors of the averages follow from those of the posteriors: with w the probabilities of the values, :math:`\bar\pi = \sum_l w_l \pi_l` has the variance
:math:`\sum_l w_l^2 \{\mathrm{mcse}(\pi_l)^2 + (\pi_l - \bar\pi)^2\, \mathrm{mcse}(\log p(y \mid \nu_l))^2\}`.

Juárez, M. A. and Steel, M. F. J. (2010). Model-based clustering of non-Gaussian panel data based on skew-t distributions. Journal of Business & Economic
Statistics 28, 52–66.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaincc, softmax

from whichvars.errors import ArgumentTypeError, DataError
from whichvars.posterior.posterior import Posterior
from whichvars.problem.families import Student
from whichvars.problem.problem import Problem
from whichvars.sampling.sample import sample

VALUES = (2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 50.0, 100.0)
SHAPE, RATE, LEAST = 2.0, 0.1, 2.0
# posterior probability of a value below which its posterior takes no part in predictions and in the verdict
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class EstimatedDf:
    """What ``estimate_df`` returns.

    Attributes
    ----------
    table : DataFrame, one row for each value of `df`
        `prior` and `posterior`, its probabilities; `mcse`, the Monte Carlo error of the latter; `log_evidence`, log p(y | df) up to a constant that all rows share.
    posteriors : list of Posterior
        Given each of the values.
    """

    table: pd.DataFrame
    posteriors: list[Posterior]

    @property
    def inclusion_probabilities(self) -> pd.Series:
        """Posterior inclusion probability of each variable, averaged over the degrees of freedom."""
        return pd.Series(self._average(self._pips()), self._names, name="inclusion_probability")

    @property
    def inclusion_mcse(self) -> pd.Series:
        """Monte Carlo standard error of each inclusion probability."""
        w, pips = self.table["posterior"].to_numpy()[:, None], self._pips()
        own = np.array([p.mcse for p in self.posteriors])
        away = (pips - self._average(pips)) * self._evidence_errors()[:, None]
        return pd.Series(np.sqrt((w**2 * (own**2 + away**2)).sum(axis=0)), self._names, name="inclusion_mcse")

    @property
    def converged(self) -> bool:
        """Whether nothing speaks against trusting the posteriors given the values that matter."""
        return not self._doubted()

    @property
    def best(self) -> Posterior:
        """The posterior given the most probable of the values, for plots and reports."""
        return self.posteriors[int(self.table["posterior"].to_numpy().argmax())]

    def coefficients(self) -> pd.DataFrame:
        """Coefficients averaged over models and degrees of freedom.

        Returns
        -------
        DataFrame, one row for the intercept, each always-included column and each candidate column
            `pip`, and `mean` and `sd` in the units of the user's columns and response.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> found = wv.estimate_df(X, X[:, 0] + rng.standard_t(3, size=200), (3, 10), progress=False)
        >>> found.coefficients()["mean"].round(1).tolist()[1:]
        [0.9, 0.0]
        """
        parts = [p.coefficients(interval=None) for p in self.posteriors]
        mean, sd = (np.array([part[name].to_numpy() for part in parts]) for name in ("mean", "sd"))
        average = self._average(mean)
        pip = self._average(np.array([part["pip"].to_numpy() for part in parts]))
        spread = np.sqrt(self._average(sd**2 + (mean - average) ** 2))
        return pd.DataFrame({"pip": pip, "mean": average, "sd": spread}, index=parts[0].index)

    def predict(self, X: Any, return_std: bool = False, offset: Any = None) -> Any:
        """Predictions of new responses, averaged over models and degrees of freedom, with their standard deviations if asked for.

        Parameters
        ----------
        X : array or DataFrame, shape (m, columns)
        return_std : bool
        offset : array or float
            Of the new rows, if the problem has an offset.

        Returns
        -------
        array, shape (m,), or two of them

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> found = wv.estimate_df(X, X[:, 0] + rng.standard_t(3, size=200), (3, 10), progress=False)
        >>> found.predict([[2.0, 0.0]]).round(0).tolist()
        [2.0]
        """
        weight = self.table["posterior"].to_numpy()
        some = np.flatnonzero(weight > NEGLIGIBLE)
        parts = [self.posteriors[i].predict(X, return_std=True, offset=offset) for i in some.tolist()]
        mean, std = (np.array([part[i] for part in parts]) for i in (0, 1))
        share = weight[some] / weight[some].sum()
        average = share @ mean
        if not return_std:
            return average
        return average, np.sqrt(share @ (std**2 + (mean - average) ** 2))

    def __repr__(self) -> str:
        best, doubted = self.table["posterior"].idxmax(), self._doubted()
        first = f"not converged for df = {', '.join(f'{df:g}' for df in doubted)}; " if doubted else ""
        return f"EstimatedDf({first}df = {best:g} with probability {self.table['posterior'].max():.2f}, of {len(self.table)} values)"

    def _doubted(self) -> list[float]:
        """The values that matter whose posteriors should not be trusted."""
        matters = self.table["posterior"].to_numpy() > NEGLIGIBLE
        rows = zip(self.table.index.tolist(), self.posteriors, matters)
        return [df for df, posterior, counts in rows if counts and not posterior.converged]

    @property
    def _names(self) -> list[str]:
        return self.posteriors[0].problem.names

    def _pips(self) -> np.ndarray:
        return np.array([p.pip for p in self.posteriors])

    def _average(self, values: np.ndarray) -> np.ndarray:
        return np.einsum("l,lp->p", self.table["posterior"].to_numpy(), values)

    def _evidence_errors(self) -> np.ndarray:
        return np.array([_error(p) for p in self.posteriors])


def estimate_df(
    X: Any,
    y: Any,
    values: Sequence[float] = VALUES,
    *,
    family: Student | None = None,
    problem: Mapping[str, Any] | None = None,
    **sampling: Any,
) -> EstimatedDf:
    r"""How heavy the tails of the noise are: the posterior of the degrees of freedom of Student noise, and results averaged over them.

    There is one posterior for each of the values, with the prior probabilities of a gamma distribution of shape 2 and rate 0.1 (mean 20; Juárez and Steel 2010), and they
    are weighted by their evidences. This takes as long as all of them together. Use ``Student(df=…)`` if one value has nearly all of the probability, or if you know it.

    Parameters
    ----------
    X, y : as for ``Problem``
    values : sequence of float
        Degrees of freedom to choose from, ascending and above 2.
    family : Student
        With another prior on the scale; its own `df` is not used.
    problem : mapping
        Other arguments of ``Problem``, such as ``{"slab": GPrior(100)}``.
    **sampling
        Arguments of ``sample``: `sampler`, `draws`, `replicates` and `seed`, for instance.

    Returns
    -------
    EstimatedDf
        With ``table``, ``inclusion_probabilities``, ``coefficients()``, ``predict(X)`` and the ``posteriors`` given each value.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = 0.3 * X[:, 0] + rng.standard_t(3, size=200)
    >>> found = wv.estimate_df(X, y, values=(3, 10, 50), progress=False)
    >>> found.table["posterior"].round(2).to_dict()
    {3.0: 0.98, 10.0: 0.02, 50.0: 0.0}
    >>> found.inclusion_probabilities.round(1).tolist()
    [0.9, 0.1, 0.1]
    """
    given = Student() if family is None else family
    if not isinstance(given, Student):
        raise ArgumentTypeError(f"family must be Student() with a prior on the scale, not {family!r}")
    arguments = dict(problem or {})
    if "family" in arguments:
        raise DataError("estimate_df is for Student noise; leave the family out of problem")
    grid = _read_values(values)
    posteriors, logs = [], []
    for df in grid.tolist():
        own = Student(df=df, prior_median=given.prior_median, prior_sd=given.prior_sd)
        posterior = sample(Problem(X, y, family=own, **arguments), **sampling)
        if posterior.log_evidence is None:
            raise DataError(
                f"{posterior.sampler} gives no evidence, by which values of df are weighted; use another sampler"
            )
        data = posterior.problem.fit_data
        assert data is not None
        posteriors.append(posterior)
        logs.append(posterior.log_evidence + posterior.problem.null_log_marginal + data.constant)
    prior, log_evidence = prior_masses(grid), np.array(logs)
    weight = softmax(np.log(prior) + log_evidence)
    errors = np.array([_error(p) for p in posteriors])
    slopes = np.diag(weight) - np.outer(weight, weight)  # of the probabilities in the log evidences
    table = pd.DataFrame(
        {
            "prior": prior,
            "posterior": weight,
            "mcse": np.sqrt(((slopes * errors) ** 2).sum(axis=1)),
            "log_evidence": log_evidence - log_evidence.max(),
        },
        index=pd.Index(grid, name="df"),
    )
    return EstimatedDf(table, posteriors)


def prior_masses(values: np.ndarray) -> np.ndarray:
    """Prior probabilities of degrees of freedom, (L,).

    >>> prior_masses(np.array([3.0, 10.0, 50.0])).round(3)
    array([0.123, 0.674, 0.203])
    """
    edges = np.concatenate([[LEAST], (values[1:] + values[:-1]) / 2, [np.inf]])
    above = gammaincc(SHAPE, RATE * edges)
    return (above[:-1] - above[1:]) / above[0]


def _read_values(values: Any) -> np.ndarray:
    grid = np.atleast_1d(np.asarray(values, float))
    if grid.ndim != 1 or not len(grid) or not (np.diff(grid) > 0).all():
        raise DataError(
            f"values must be degrees of freedom in ascending order, such as (3, 5, 10), not {values!r}"
        )
    return grid


def _error(posterior: Posterior) -> float:
    error = posterior.log_evidence_mcse
    return 0.0 if error is None else float(error)


__all__ = ["EstimatedDf", "estimate_df"]
