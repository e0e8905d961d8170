"""Models that are named: their Bayes factors, the posterior given one of them, and which model an estimator means."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.posterior.conditions import Condition, log_prior_probability
from whichvars.posterior.models import KeptModels
from whichvars.posterior.prediction import models_of
from whichvars.posterior.tables import r_squared
from whichvars.problem.evaluating import find_model, log_marginal_error
from whichvars.problem.families import Gaussian
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Models, Posterior


class SingleModels:
    """The methods of a ``Posterior`` about models that are named; it has the attributes named here."""

    problem: Problem
    kept: KeptModels
    models: "Models"
    log_evidence: float | None
    log_evidence_mcse: float | None
    condition: Condition | None

    def bayes_factor(self, a: Any, b: Any = ()) -> pd.Series:
        r"""Compare two models by their Bayes factor, :math:`p(y \mid a) / p(y \mid b)`, and by their posterior odds.

        Both marginal likelihoods are computed anew, so that the result has no Monte Carlo error, whether a run visited the models or not.

        Parameters
        ----------
        a, b : names or indices
            The variables in each of the two models, as for ``Problem.log_marginal``. By default, b is the null model.

        Returns
        -------
        Series
            `bayes_factor` and its logarithm `log_bayes_factor`; `prior_odds`, p(a)/p(b); `posterior_odds`, their product, with its
            logarithm `log_posterior_odds`; `log_error`, the standard error of both logarithms: 0, unless the family is
            not Gaussian and importance sampling was used.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> found = posterior.bayes_factor(["Ed", "Ineq", "Po1"], ["Ed", "Ineq", "Po2"])
        >>> round(float(found["bayes_factor"]), 3), round(float(found["posterior_odds"]), 3)
        (1.818, 1.818)
        """
        problem = self.problem
        models = find_model(problem, a, "a"), find_model(problem, b, "b")
        marginals = [problem.log_marginal(m) for m in models]
        priors = [problem.log_prior(m) for m in models]
        for name, marginal, prior in zip("ab", marginals, priors):
            if not np.isfinite(marginal):
                raise DataError(
                    f"{name}: the model has no marginal likelihood under {problem.slab}: its columns are collinear, or there are too many "
                    "of them for the rows"
                )
            if name == "b" and not np.isfinite(prior):
                raise DataError(
                    "b: the model has a prior probability of 0, so that there are no odds against it"
                )
        evidence, odds = marginals[0] - marginals[1], priors[0] - priors[1]
        errors = [0.0 if models[0] == models[1] else log_marginal_error(problem, m) for m in models]
        with np.errstate(over="ignore"):
            return pd.Series(
                {
                    "bayes_factor": np.exp(evidence),
                    "log_bayes_factor": evidence,
                    "prior_odds": np.exp(odds),
                    "posterior_odds": np.exp(evidence + odds),
                    "log_posterior_odds": evidence + odds,
                    "log_error": float(np.hypot(errors[0], errors[1])),
                }
            )

    def evidence(self, against: "Posterior | None" = None) -> pd.Series:
        r"""Log evidence :math:`\log p(y)` of the problem, all models together, relative to the null model; compared with another problem's
        if one is given.

        .. math:: p(y) = \sum_\gamma p(y \mid \gamma)\, p(\gamma)

        Two problems whose null models are the same (the same rows, response, family, weights and always-included columns) can be compared by
        the difference of their log evidences, which is the logarithm of a Bayes factor. They may differ in the slab, in the prior on models, or
        in the candidate columns. The result depends on the slab's scale, as Bayes factors do.

        Parameters
        ----------
        against : Posterior
            The answer to another problem.

        Returns
        -------
        Series
            `log_evidence` and its Monte Carlo standard error `mcse`: 0 if exact, NaN with a single replicate. Both are NaN if a sampled
            posterior has too few draws in models that it had visited before. With `against` also `log_bayes_factor` of this problem against the other,
            its standard error `log_bayes_factor_mcse`, and `bayes_factor`.

        Examples
        --------
        Do measures of inequality and of police expenditure explain crime better than the other columns do?

        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> some = ["Ineq", "Po1", "Po2"]
        >>> first = wv.exact(wv.Problem(data.X[some], data.y, slab=wv.GPrior(47)))
        >>> second = wv.exact(wv.Problem(data.X.drop(columns=some), data.y, slab=wv.GPrior(47)))
        >>> first.evidence(against=second).round(2).to_dict()  # doctest: +NORMALIZE_WHITESPACE
        {'log_evidence': 16.84, 'mcse': 0.0, 'log_bayes_factor': 6.81, 'log_bayes_factor_mcse': 0.0, 'bayes_factor': 906.12}
        """
        own, error = _evidence(cast("Posterior", self))
        values = {"log_evidence": own, "mcse": error}
        if against is not None:
            _check_comparable(self.problem, against.problem)
            other, other_error = _evidence(against)
            with np.errstate(over="ignore"):
                values |= {
                    "log_bayes_factor": own - other,
                    "log_bayes_factor_mcse": float(np.hypot(error, other_error)),
                    "bayes_factor": float(np.exp(own - other)),
                }
        return pd.Series(values)

    def which_model(self, estimator: Literal["HPM", "MPM", "BPM"] = "HPM") -> list[str]:
        """The variables of the model that an estimator means.

        Parameters
        ----------
        estimator : "HPM", "MPM" or "BPM"
            The model of highest posterior probability (of those a run recorded); the median probability model, which has all variables with an
            inclusion probability of at least one half (Barbieri and Berger 2004, Annals of Statistics 32, 870–897); or the best
            predictive model, the one of ``kept`` whose fit to the data is nearest to the average's.

        Returns
        -------
        list of str
            Names of variables, in the order of the columns.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.which_model("MPM")
        ['M', 'Ed', 'Po1', 'NW', 'U2', 'Ineq', 'Prob']
        """
        if estimator not in ("HPM", "MPM", "BPM"):
            raise DataError(
                f"estimator must be 'HPM', 'MPM' or 'BPM' if one model is meant, not {estimator!r}"
            )
        model = models_of(estimator, cast("Posterior", self)).model(0)
        return [self.problem.names[j] for j in model]

    def model(self, variables: Any) -> "Posterior":
        """The posterior given one model: its coefficients, predictions and everything else, as if it were known to be right.

        Parameters
        ----------
        variables : names or indices
            The variables in the model, as for ``Problem.log_marginal``; the model need not have been visited.

        Returns
        -------
        Posterior
            Without Monte Carlo error. ``condition.probability`` is the posterior probability of the model, with its error
            ``condition.mcse`` (NaN if the run could not estimate the evidence); ``log_evidence`` is the model's log marginal likelihood;
            ``r_squared()`` is that of its least-squares fit.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> one = posterior.model(["Ed", "Ineq", "Po1"])
        >>> one.coefficients()[["mean", "sd"]].query("mean != 0").round(2)
                      mean    sd
        coefficient
        (intercept) -13.72  3.57
        Ed            1.36  0.48
        Po1           1.25  0.14
        Ineq          1.64  0.29
        """
        return given_model(cast("Posterior", self), find_model(self.problem, variables))

    def r_squared(self) -> pd.Series:
        """R² of the least-squares fits of the models, given the always-included columns, averaged over models. For Gaussian responses.

        Returns
        -------
        Series
            `mean` and `sd` over the posterior of models, and the Monte Carlo error `mcse` of the mean. After ``model`` it is that of
            the model, with an sd of 0.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.model(["Ed", "Ineq", "Po1"]).r_squared().round(3).to_dict()
        {'mean': 0.696, 'sd': 0.0, 'mcse': 0.0}
        """
        if not isinstance(self.problem.family, Gaussian):
            raise DataError(
                f"r_squared() is for Gaussian responses, not for family={self.problem.family}; see scores()"
            )
        kept = self.kept
        values = np.array([r_squared(self.problem, kept.model(i)) for i in range(len(kept))])
        mean = float(kept.weight @ values)
        return pd.Series(
            {
                "mean": mean,
                "sd": float(np.sqrt(kept.weight @ (values - mean) ** 2)),
                "mcse": float(kept.error(values, self.models.exact)),
            }
        )


def _evidence(posterior: "Posterior") -> tuple[float, float]:
    value, error = posterior.log_evidence, posterior.log_evidence_mcse
    if value is None:
        return float("nan"), float("nan")
    unknown = 0.0 if posterior.models.exact else float("nan")
    return value, unknown if error is None else error


def _check_comparable(problem: Problem, other: Problem) -> None:
    """DataError unless both problems have the same null model."""
    reasons = {
        "families": problem.family == other.family,
        "numbers of rows": problem.n == other.n,
        "always-included columns": sorted(problem.always_names) == sorted(other.always_names),
        "priors on the noise": problem.noise == other.noise,
    }
    different = [name for name, same in reasons.items() if not same]
    if not different:
        pairs: list[tuple[Any, Any]] = [
            (problem._y_scale, other._y_scale),
            (problem.flat.y_mean, other.flat.y_mean),
        ]
        if problem.fit_data is not None and other.fit_data is not None:
            data, theirs = problem.fit_data, other.fit_data
            pairs = [
                (getattr(data, name), getattr(theirs, name)) for name in ("y", "trials", "weights", "offset")
            ]
        if not all(np.allclose(one, two, rtol=1e-9, atol=0) for one, two in pairs):
            different = ["responses or weights"]
    if different:
        raise DataError(
            f"against: the two problems have different {' and '.join(different)}, so that their null models differ and their evidences cannot "
            "be compared"
        )


def given_model(posterior: "Posterior", model: tuple[int, ...]) -> "Posterior":
    """What ``Posterior.model`` returns."""
    problem = posterior.problem
    names = tuple(problem.names[j] for j in model)
    marginal, prior = problem.log_marginal(model), problem.log_prior(model)
    if not np.isfinite(marginal):
        raise DataError(
            f"the model with {', '.join(names)} has no posterior under {problem.slab}: its columns are collinear, or there are too many of them "
            "for the rows"
        )
    evidence, error = _evidence(posterior)
    before = log_prior_probability(problem, posterior.condition)
    with np.errstate(over="ignore"):
        probability = float(min(np.exp(marginal + prior - before - evidence), 1.0))
    own_error = log_marginal_error(problem, model)
    condition = Condition(
        names, (), True, probability, probability * float(np.hypot(error, own_error)), posterior.pip
    )
    pip, sizes = np.zeros(problem.p), np.zeros(problem.p + 1)
    pip[list(model)] = 1.0
    sizes[len(model)] = 1.0
    constant = problem.model_prior.log_constant(problem.p, problem.max_size)
    table = replace(
        posterior.models,
        members=[model],
        log_marginal=np.array([marginal]),
        log_prior=np.array([prior - constant]),
        frequency=np.ones(1),
        exact=True,
        mcse=None,
    )
    none_of_a_run: dict[str, Any] = dict.fromkeys(
        (
            "sizes_mcse", "known_share", "comparison", "replicate_pips", "replicate_variances", "frequencies", "frequency_mcse",
            "rao_blackwell", "rao_blackwell_mcse", "trace", "trace_models", "reweighting_ess",
        )
    )  # fmt: skip
    return replace(
        posterior,
        pip=pip,
        mcse=np.zeros(problem.p),
        sizes=sizes,
        models=table,
        kept=KeptModels.of({model: 1.0}),
        iterations=1,
        log_evidence=marginal,
        log_evidence_mcse=own_error,
        found=(),
        adaptation=[],
        troubles={},
        warnings=(),
        settings={},
        chosen="",
        stopped="",
        condition=condition,
        **none_of_a_run,
    )
