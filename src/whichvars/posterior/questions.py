"""Questions about the models behind a posterior: several variables at once, other priors, conditions, stand-ins."""

import warnings
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.data.frames import check_share, find_columns
from whichvars.errors import ConvergenceWarning, DataError
from whichvars.posterior.clusters import cluster_table
from whichvars.posterior.credible_sets import find_sets, member_table, set_table
from whichvars.posterior.diagnostics import ENOUGH
from whichvars.posterior.discoveries import discovery_table
from whichvars.posterior.jointness import MEASURES, pair_table
from whichvars.posterior.models import KeptModels
from whichvars.posterior.reweighting import Draws, carry_over, conditional, read_draws, thin_warning
from whichvars.posterior.sensitivity import sensitivity_table
from whichvars.problem.arguments import check_choice
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
            Probabilities `both`, `first_only`, `second_only`, `neither`. Then the published measures of jointness, whose formulas are in the module
            ``jointness``: `jointness` and `jointness_odds` of Ley and Steel (2007), `log_odds_ratio` of Doppelhofer and Weeks (2009),
            and `yule_q`, the modified Yule's Q of Hofmarcher et al. (2018). The last two are negative for substitutes and positive
            for complements. Then the Monte Carlo error of each of them, under its name with ``_mcse``: 0 if exact, NaN with a single replicate.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.jointness("Po1", "Po2")[["both", "log_odds_ratio", "yule_q"]].round(2).tolist()
        [0.1, -8.18, -0.86]
        """
        (first,), (second,) = (find_columns(it, self.problem.names, "names") for it in (a, b))
        table = pair_table(self.kept, [first], [second], self.problem.names, self.models.exact)
        return table.iloc[0].rename(f"{a}, {b}")

    def joint_pairs(self, variables: Any = None) -> pd.DataFrame:
        """Joint inclusion of all pairs of some variables: which are in together, and which exclude one another.

        Parameters
        ----------
        variables : names
            The default is those with an inclusion probability of at least 0.1, at most 20.

        Returns
        -------
        DataFrame, one row for each pair of variables
            With the columns of ``jointness``, sorted by `yule_q`: pairs that are in together come first, pairs of which one stands in for the other
            come last.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> pairs = posterior.joint_pairs()
        >>> pairs.index[0], pairs.index[-1]
        (('Ed', 'Ineq'), ('Po1', 'Po2'))
        """
        chosen = self._choose(variables, 2)
        first, second = zip(*combinations(chosen, 2))
        table = pair_table(self.kept, first, second, self.problem.names, self.models.exact)
        return table.sort_values("yule_q", ascending=False, kind="stable")

    def joint_inclusion(
        self, variables: Any = None, measure: str = "probability", return_mcse: bool = False
    ) -> Any:
        """Matrix of the probabilities that two variables are in the model together, or of a measure of jointness.

        Parameters
        ----------
        variables : names
            The default is those with an inclusion probability of at least 0.1, at most 20.
        measure : "probability", "jointness", "jointness_odds", "log_odds_ratio" or "yule_q"
            The probability that both are in, or one of the measures of ``jointness``.
        return_mcse : bool
            Return the matrix of Monte Carlo errors too: 0 if exact, NaN with a single replicate.

        Returns
        -------
        DataFrame, one row and one column for each variable; with `return_mcse` a pair of them
            On the diagonal there are the shares of the kept models that have the variable if `measure` is "probability", and NaN otherwise.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.joint_inclusion(["Ed", "Po1", "Po2"]).round(2)
               Ed   Po1   Po2
        Ed   0.95  0.64  0.40
        Po1  0.64  0.67  0.10
        Po2  0.40  0.10  0.43
        """
        column = "both" if measure == "probability" else measure
        check_choice(measure, ("probability", *MEASURES), "measure")
        chosen = self._choose(variables, 1)
        first, second = zip(*combinations_with_replacement(chosen, 2))
        names = self.problem.names
        table = pair_table(self.kept, first, second, names, self.models.exact)
        labels = pd.Index([names[j] for j in chosen])
        place = {j: k for k, j in enumerate(chosen)}
        rows, columns = [place[j] for j in first], [place[j] for j in second]
        found = []
        for name in (column, f"{column}_mcse"):
            matrix = np.full((len(chosen), len(chosen)), np.nan)
            matrix[rows, columns] = matrix[columns, rows] = table[name]
            if measure != "probability":
                np.fill_diagonal(matrix, np.nan)
            found.append(pd.DataFrame(matrix, labels, labels))
        return tuple(found) if return_mcse else found[0]

    def _choose(self, variables: Any, least: int) -> list[int]:
        """The variables named, or the most probable ones, at least so many."""
        if variables is None:
            order = np.argsort(-self.pip, kind="stable")[:20]
            chosen = sorted(int(j) for k, j in enumerate(order) if self.pip[j] >= 0.1 or k < least)
        else:
            chosen = find_columns(variables, self.problem.names, "variables")
        if len(chosen) < least:
            raise DataError(f"variables: name at least {least}, as there are no pairs of fewer than two")
        return chosen

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

    def given(self, include: Any = None, exclude: Any = None) -> "Posterior":
        """The posterior given that some variables are in and others are out.

        The kept models that satisfy the condition are given weights that sum to one. If the posterior is exact, so is the result; otherwise
        it rests on the draws that satisfy the condition.

        Parameters
        ----------
        include, exclude : names
            Variables that are assumed to be in the model, and out of it.

        Returns
        -------
        Posterior
            With everything that a posterior has: tables, coefficients, predictions and plots, with their Monte Carlo errors.
            ``summary()`` has a column `pip_before` with the inclusion probabilities without the condition. ``condition`` says what was assumed, and
            ``condition.probability`` how probable that is, with its Monte Carlo error ``condition.mcse``. With fewer than 100 draws that satisfy
            the condition, a ``ConvergenceWarning`` asks for a run of its own, ``converged`` is False and ``explain`` says so.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> without = posterior.given(exclude="Po1")
        >>> without.summary().loc[["Po2"], ["pip", "pip_before"]].round(3)
                    pip  pip_before
        variable
        Po2       0.998       0.428
        >>> round(without.condition.probability, 3)
        0.33
        """
        new = conditional(cast("Posterior", self), include, exclude)
        assert new.reweighting_ess is not None
        if new.reweighting_ess < ENOUGH:
            warnings.warn(
                f"only {new.reweighting_ess:.0f} draws satisfy the condition, fewer than {ENOUGH:.0f}: the result is rough. Run sample() "
                "on a problem with always_include=… or without the columns instead",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif new.condition is not None and not new.condition.enough:
            warnings.warn(
                "the condition is so improbable that few of the models that satisfy it were kept. Run exact() on a problem with "
                "always_include=… or without the columns instead",
                ConvergenceWarning,
                stacklevel=2,
            )
        return new

    # --- stand-ins

    def clusters(self, level: float = 0.95, correlation: float = 0.5) -> pd.DataFrame:
        """Sets of variables that stand in for one another: one of them is needed, and the data cannot say which.

        They are correlated, rarely in the model together, and at least one of them is in with probability `level` or more.
        ``credible_sets`` is the form that fine mapping needs; it also lists signals that do not reach the level. The module ``clusters`` describes how they are found.

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

    def credible_sets(
        self,
        level: float = 0.95,
        purity: float = 0.5,
        least: float = 0.5,
        long: bool = False,
        signal: float | None = None,
    ) -> pd.DataFrame:
        """Credible sets: disjoint sets of variables of which at least one is in the model.

        They are found from the joint posterior of all effects; the module ``credible_sets`` says how.

        Parameters
        ----------
        level : float
            Probability that each set should reach, by as few variables as possible.
        purity : float
            Least absolute correlation between any two members.
        least : float
            Signals that cannot reach the level are listed too if the probability that they do reach is at least this. Such a set has
            as many members as have the share `level` of that probability.
        long : bool
            One row for each member instead of one for each set.
        signal : float
            Sets of the place of an effect, given that there is one, as in susieR and FINEMAP: with the share `level` of the probability of the
            signal, which is that of all variables that stand in for one another. `signal` is the least probability of a signal for its set to
            be `reached`; with 0.5, those of all signals that are more probable than not.

        Returns
        -------
        DataFrame, one row for each set, that of the most probable leading variable first
            `lead`; `size`; `probability` that at least one member is in, and its Monte Carlo error `mcse` (0 if exact, NaN with a single
            replicate); `reached`, whether this is the level or more; `expected` number of members in the model; `purity`, the smallest
            absolute correlation between two members; `variables`, most probable first, and their inclusion probabilities `pips`. With
            `long`: `set`, `set_probability`, `set_mcse`, `reached`, `size`, `purity`, `variable`, `pip` and `mcse`. With `signal` also
            a column `signal`, the probability that the signal is there at all, and `reached` is about that.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 6))
        >>> X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=500)
        >>> y = 0.3 * X[:, 0] + 0.12 * X[:, 4] + rng.normal(size=500)
        >>> posterior = wv.exact(wv.Problem(X, y, slab=wv.IndependentNormal(0.01), model_prior=wv.BetaBinomial(size=1)))
        >>> posterior.credible_sets()[["probability", "reached", "variables"]].round(2)
             probability  reached variables
        set
        1           1.00     True  [x0, x1]
        2           0.68    False      [x4]
        >>> posterior.credible_sets(signal=0.5)["reached"].tolist()
        [True, True]
        """
        own = 1.0 if signal is None else signal
        for share, name in ((level, "level"), (purity, "purity"), (least, "least"), (own, "signal")):
            check_share(share, name)
        posterior = cast("Posterior", self)
        sets = find_sets(posterior, level, purity, min(least, own), signal)
        return (member_table if long else set_table)(posterior, sets, level, signal)

    def discoveries(self, fdr: float = 0.05, largest: int = 25) -> pd.DataFrame:
        """Disjoint sets of variables, each as small as the data allow, of which an expected share of at most `fdr` is false.

        A set is false if none of its variables is in the model. Unlike ``credible_sets``, whose sets each reach the same level, this limits the
        share of false ones among all of them: certain discoveries make room for others. The module ``discoveries`` has the integer program.

        Parameters
        ----------
        fdr : float
            Largest expected share of false discoveries, given the data.
        largest : int
            Largest number of variables in a set.

        Returns
        -------
        DataFrame, one row for each set, the most probable first
            `size`; `probability` that at least one member is in, and its Monte Carlo error `mcse`; `purity`, the smallest absolute
            correlation between two members; `variables`, most probable first, and their inclusion probabilities `pips`.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 6))
        >>> X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=500)
        >>> y = 0.3 * X[:, 0] + 0.2 * X[:, 4] + rng.normal(size=500)
        >>> posterior = wv.exact(wv.Problem(X, y, slab=wv.IndependentNormal(0.01), model_prior=wv.BetaBinomial(size=1)))
        >>> posterior.discoveries()[["size", "variables"]].to_numpy().tolist()
        [[2, ['x0', 'x1']], [1, ['x4']]]
        """
        check_share(fdr, "fdr")
        if isinstance(largest, bool) or not isinstance(largest, (int, np.integer)) or largest < 1:
            raise DataError(f"largest must be a whole number of at least 1, not {largest!r}")
        return discovery_table(cast("Posterior", self), fdr, int(largest))
