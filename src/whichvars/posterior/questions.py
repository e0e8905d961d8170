"""Questions about the models behind a posterior: several variables at once, other priors, conditions, stand-ins."""

import warnings
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.data.frames import check_share, find_columns
from whichvars.errors import ConvergenceWarning, DataError
from whichvars.posterior.clusters import cluster_table
from whichvars.posterior.diagnostics import ENOUGH
from whichvars.posterior.models import KeptModels
from whichvars.posterior.reweighting import (
    Draws,
    carry_over,
    conditional_table,
    read_draws,
    sensitivity_table,
    thin_warning,
)
from whichvars.problem.model_priors import ModelPrior
from whichvars.problem.priors import Slab
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Models, Posterior


# rounding error of a sum of probabilities
ROUNDING = 1e-12


class Questions:
    """The methods of a ``Posterior`` that need the kept models; it has the attributes named here."""

    problem: Problem
    pip: np.ndarray
    mcse: np.ndarray
    kept: KeptModels
    trace: pd.DataFrame | None
    trace_models: sparse.csr_array | None
    iterations: int
    reweighting_ess: float | None
    models: "Models"

    # --- several variables

    def probability_any(self, names: Any, return_mcse: bool = False) -> Any:
        """Posterior probability that at least one of the variables is in the model, from ``kept``.

        It is clipped to lie between the largest and the sum of their inclusion probabilities, from which it might otherwise
        differ by Monte Carlo error.

        Parameters
        ----------
        names : names
            The variables.
        return_mcse : bool
            Return the Monte Carlo standard error too: 0 if exact, NaN with a single replicate.

        Examples
        --------
        Two measures of police expenditure stand in for one another:

        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> round(posterior.probability_any(["Po1", "Po2"]), 3)
        0.999
        """
        pips = self.pip[find_columns(names, self.problem.names, "names")]
        return self._estimate(
            np.logical_or.reduce(self._having(names)), pips.max(), min(pips.sum(), 1.0), return_mcse
        )

    def probability_all(self, names: Any, return_mcse: bool = False) -> Any:
        """Posterior probability that all of the variables are in the model together, from ``kept``.

        Never more than the smallest of their inclusion probabilities, as ``probability_any`` is never less than the
        largest.

        Parameters
        ----------
        names : names
            The variables.
        return_mcse : bool
            Return the Monte Carlo standard error too: 0 if exact, NaN with a single replicate.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> round(posterior.probability_all(["Po1", "Po2"]), 3)
        0.099
        """
        pips = self.pip[find_columns(names, self.problem.names, "names")]
        least = max(1 - float((1 - pips).sum()) - ROUNDING, 0.0)
        return self._estimate(np.logical_and.reduce(self._having(names)), least, pips.min(), return_mcse)

    def _estimate(self, good: np.ndarray, least: float, most: float, return_mcse: bool) -> Any:
        """The weight of the models for which `good` is True, (models,), clipped to bounds; with its error if asked for."""
        value = float(np.clip(float(self.kept.weight @ good), least, most))
        return (value, self._error(good)) if return_mcse else value

    def _error(self, values: np.ndarray) -> float:
        """Monte Carlo standard error of an average over models."""
        return float(self.kept.error(values.astype(float), self.models.exact))

    def jointness(self, a: str | int, b: str | int) -> pd.Series:
        r"""Joint inclusion of two variables, from the kept models.

        Returns
        -------
        Series
            Probabilities `both`, `first_only`, `second_only`, `neither`; `jointness`, both / (both +
            first_only + second_only), between 0 (never together) and 1 (never apart), of Ley and Steel (2007,
            Journal of Macroeconomics 29, 476–493); `log_odds_ratio`, log(both · neither / (first_only ·
            second_only)), of Doppelhofer and Weeks (2009, Journal of Applied Econometrics 24, 209–244):
            negative for substitutes, positive for complements. Then the Monte Carlo error of each of them, under its name
            with ``_mcse``: 0 if exact, NaN with a single replicate.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> bool(posterior.jointness("Po1", "Po2")["log_odds_ratio"] < 0)
        True
        """
        first, second = self._having(a)[0], self._having(b)[0]
        cells = {
            "both": first & second,
            "first_only": first & ~second,
            "second_only": second & ~first,
            "neither": ~(first | second),
        }
        probabilities = {name: np.float64(self.kept.weight @ good) for name, good in cells.items()}
        both, only_first, only_second, neither = probabilities.values()
        with np.errstate(divide="ignore", invalid="ignore"):
            joint = both / (both + only_first + only_second)
            odds = np.log(both) + np.log(neither) - np.log(only_first) - np.log(only_second)
            # to first order, both are averages over models
            of_joint = (cells["both"] - joint * ~cells["neither"]) / (1 - neither)
            of_odds = sum(
                sign * (cells[name] / probabilities[name])
                for name, sign in zip(cells, (1.0, -1.0, -1.0, 1.0))
            )
            errors = {name: self._error(good) for name, good in cells.items()}
            errors |= {"jointness": self._error(of_joint), "log_odds_ratio": self._error(np.asarray(of_odds))}
        values = {name: float(value) for name, value in probabilities.items()}
        values |= {"jointness": float(joint), "log_odds_ratio": float(odds)}
        return pd.Series(values | {f"{name}_mcse": error for name, error in errors.items()}, name=f"{a}, {b}")

    def _having(self, names: Any) -> list[np.ndarray]:
        """For each of the variables, whether each kept model has it."""
        variables = find_columns(names, self.problem.names, "names")
        if not variables:
            raise DataError("names is empty; name at least one variable")
        return [self.kept.having(j) for j in variables]

    # --- other priors, conditions

    def _draws(self) -> Draws:
        """The models one by one, as reweighting needs them."""
        return read_draws(self.kept, self.trace, self.trace_models, self.iterations, self.reweighting_ess)

    def reweight(self, *, slab: Slab | None = None, model_prior: ModelPrior | None = None) -> Self:
        r"""The same models under other priors, without sampling again.

        The weight of every kept model is multiplied by p_new(y, γ) / p_old(y, γ). For an exact posterior this is exact (it
        keeps all but 1e-12 of the mass; if the new prior may need the rest, a warning recommends ``exact``). For a sampled
        posterior it is importance sampling, which is accurate as long as the new posterior is close to the old one:
        ``reweighting_ess`` is the effective number of draws left, and below 100 a ``ConvergenceWarning`` recommends a new
        run. Monte Carlo errors are estimated from differences between replicates, and include the effect of unequal
        weights.

        Parameters
        ----------
        slab, model_prior
            The new priors; a prior that is not given stays the same. A model with collinear columns has no weight under
            slabs that need full rank; when reweighting from such a slab to ``IndependentNormal``, these models are missing.

        Returns
        -------
        Posterior
            The posterior of the new problem; coefficients, predictions and best models are reweighted too.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> other = posterior.reweight(slab=wv.HyperG(), model_prior=wv.BetaBinomial(1, 1))
        >>> round(float(other.inclusion_probabilities["Ed"]), 3)
        0.972
        """
        problem = self.problem.with_priors(slab, model_prior)
        new, enough = carry_over(cast("Posterior", self), problem)
        if not enough:
            warnings.warn(thin_warning(new.reweighting_ess), ConvergenceWarning, stacklevel=2)
        return new

    def sensitivity(self, g: Any = None, prior_size: Any = None, variables: Any = None) -> pd.DataFrame:
        """How inclusion probabilities depend on the priors, by reweighting.

        Parameters
        ----------
        g : sequence of float
            Values of the slab's parameter: g of ``IndependentNormal`` and ``GPrior`` (1/16, 1/4, 1, 4 and 16 times
            the problem's own if not given), a of ``HyperG`` and ``HyperGN``. Other slabs have none.
        prior_size : sequence of float
            Prior expectations of the number of variables; 1/4, 1/2, 1, 2 and 4 times the problem's own.
        variables : names
            Variables to show. The default is those with an inclusion probability of at least 0.1, at most 20.

        Returns
        -------
        DataFrame, one row for each pair of g and prior_size
            `ess`, the effective draws left (infinite if exact), and `enough`: False if they are fewer than 100, so that
            the row should not be trusted; use ``sample`` instead. Then `mcse`, the largest Monte Carlo
            error of the inclusion probabilities shown (0 if exact), `mean_size`, the posterior mean of the model size, and
            the inclusion probability of each variable.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.sensitivity(g=[10, 47, 200], prior_size=[3, 7], variables=["Ed", "Po1"]).round(2)
                          ess  enough  mcse  mean_size    Ed   Po1
        g     prior_size
        10.0  3.0         inf    True   0.0       7.94  0.91  0.66
              7.0         inf    True   0.0      10.39  0.97  0.73
        47.0  3.0         inf    True   0.0       6.72  0.91  0.66
              7.0         inf    True   0.0       8.26  0.96  0.68
        200.0 3.0         inf    True   0.0       4.56  0.69  0.65
              7.0         inf    True   0.0       5.52  0.81  0.65
        """
        if variables is None:
            order = np.argsort(-self.pip, kind="stable")[:20]
            chosen = [int(j) for j in order if self.pip[j] >= 0.1]
        else:
            chosen = find_columns(variables, self.problem.names, "variables")
        return sensitivity_table(self.problem, self._draws(), g, prior_size, chosen)

    def given(self, include: Any = None, exclude: Any = None) -> pd.DataFrame:
        """Inclusion probabilities given that some variables are in and others are out.

        Parameters
        ----------
        include, exclude : names
            Variables that are assumed to be in the model, and out of it.

        Returns
        -------
        DataFrame, one row for each variable, most probable first
            `pip` given the condition, its Monte Carlo error `mcse`, its effective sample size `ess`, and
            `pip_before`, without the condition. ``.attrs["probability"]`` is the probability of the condition,
            ``.attrs["probability_mcse"]`` its Monte Carlo error. With
            fewer than 100 draws that satisfy it, a ``ConvergenceWarning`` asks for a run of its own.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.given(exclude="Po1").loc[["Po2"]].round(3)
                    pip  mcse  ess  pip_before
        variable
        Po2       0.998   0.0  inf       0.428
        """
        table, ess = conditional_table(cast("Posterior", self), include, exclude)
        if ess < ENOUGH:
            warnings.warn(
                f"only {ess:.0f} draws satisfy the condition, fewer than {ENOUGH:.0f}: the result is rough. Run sample() "
                "on a problem with always_include=… or without the columns instead",
                ConvergenceWarning,
                stacklevel=2,
            )
        return table

    # --- stand-ins

    def clusters(self, level: float = 0.95, correlation: float = 0.5) -> pd.DataFrame:
        """Sets of variables that stand in for one another: one of them is needed, the data cannot say which.

        They are correlated, rarely in the model together, and at least one of them is in with probability `level` or more.
        In fine mapping they are called credible sets. The module ``clusters`` describes how they are found.

        Parameters
        ----------
        level : float
            Least probability that at least one variable of the cluster is in the model.
        correlation : float
            Least absolute correlation with the cluster's leading variable.

        Returns
        -------
        DataFrame, one row for each cluster, sorted by the inclusion probability of the leading variable
            `lead`; `size`; `probability` that at least one of them is in, which lies between the largest and the sum of
            their inclusion probabilities, and its Monte Carlo error `mcse` (0 if exact, NaN with a single replicate; for
            a single variable, that of its inclusion probability); `expected` number of them in the model, the sum of the
            inclusion probabilities, near 1 if they exclude one another; `purity`, the smallest absolute correlation among
            them; `variables`, a list of names, most probable first.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.clusters()[["probability", "purity", "variables"]].round(3)
                 probability  purity   variables
        cluster
        1              0.995   1.000      [Ineq]
        2              0.999   0.993  [Po1, Po2]
        """
        check_share(level, "level")
        check_share(correlation, "correlation")
        table = cluster_table(self.problem, self.kept, level, correlation, self.pip, self.models.exact)
        # a single variable has its inclusion probability, and the error of that
        of_lead = table["lead"].map(dict(zip(self.problem.names, self.mcse.tolist())))
        return table.assign(mcse=np.where(table["size"] == 1, of_lead, table["mcse"]).astype(float))
