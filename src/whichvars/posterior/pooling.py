r"""``pool``: posteriors of completed copies of one table, mixed into one.

With m completed tables, every probability and expectation is the mean of those of the parts, since

.. math:: p(\gamma \mid \text{observed}) = \int p(\gamma \mid \text{completed})\, p(\text{missing} \mid \text{observed})
          \,d\,\text{missing}.

Two errors go with it. The Monte Carlo error of the mean, :math:`\sqrt{\sum_i e_i^2}/m`, is due to sampling models. The imputation
error, the standard deviation between the parts over :math:`\sqrt m`, is due to the number of imputations; it falls with larger m.
Variances of coefficients and predictions are those within the parts, W on average, plus those between them. The means of m parts vary less about
their own mean than about what very many parts would give, by the factor (m − 1)/(m + 1). So with B their variance about their own mean

.. math:: V = W + \frac{m + 1}{m - 1}\, B ,

which is Rubin's rule. Intervals come from draws that are spread in the same way (``pooled_effects.py``). Without this, intervals of five
imputations of a table with many holes would be too short.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from whichvars.data import storage
from whichvars.data.chained import Kinds
from whichvars.data.frames import check_level, check_share
from whichvars.data.imputing import Imputations, from_stored, to_stored
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.posterior.coefficients import check_ratio
from whichvars.posterior.diagnostics import count
from whichvars.posterior.explaining import ALMOST_CERTAIN, likely_words, stand_in_sentences
from whichvars.posterior.family_words import MENTIONED, effect_sentence
from whichvars.posterior.methods import methods_paragraph
from whichvars.posterior.notebooks import MOST_ROWS, notebook_table
from whichvars.posterior.pooled_effects import (
    few_parts,
    pooled_clusters,
    pooled_standard_effects,
    spread_draws,
)
from whichvars.posterior.pooled_prediction import draws_of, predictions
from whichvars.posterior.posterior import STORED, Posterior
from whichvars.posterior.residual_checks import ResidualCheck
from whichvars.posterior.tables import formatted
from whichvars.problem.families import Family
from whichvars.problem.problem import Problem

# draws of each part from which intervals are taken
DRAWS = 4000


@dataclass(frozen=True)
class PooledPosterior:
    """Posteriors of completed copies of one table, mixed by ``pool``. Each of them is in ``parts``."""

    parts: tuple[Posterior, ...]
    imputations: Imputations | None = None

    @cached_property
    def names(self) -> list[str]:
        return self.parts[0].problem.names

    @cached_property
    def pip(self) -> np.ndarray:
        """Inclusion probabilities, (p,)."""
        return np.mean([part.pip for part in self.parts], axis=0)

    @cached_property
    def mcse(self) -> np.ndarray:
        """Their Monte Carlo errors, (p,)."""
        errors = np.array([part.mcse for part in self.parts])
        out: np.ndarray = np.sqrt((errors**2).sum(axis=0)) / len(self.parts)
        return out

    @cached_property
    def imputation_error(self) -> np.ndarray:
        """By how much they may differ from those of very many imputations, one standard error, (p,); 0 if no cell was missing."""
        return self.error_between([part.pip for part in self.parts])

    @cached_property
    def _coefficient_tables(self) -> list[pd.DataFrame]:
        return [part.coefficients(interval=None) for part in self.parts]  # families fit all kept models again

    def error_between(self, values: Any) -> np.ndarray:
        """Standard error of a mean over parts, due to their number; NaN with a single one, but 0 if no cell was missing."""
        array = np.asarray(values)
        if self.imputations is not None and not self.imputations.gaps.any():
            return np.zeros(array.shape[1:])
        if len(array) == 1:
            return np.full(array.shape[1:], np.nan)
        return np.asarray(array.std(axis=0, ddof=1) / np.sqrt(len(array)))

    @cached_property
    def inclusion_probabilities(self) -> pd.Series:
        """Posterior inclusion probability of each variable, by name."""
        return pd.Series(self.pip, self.names, name="inclusion_probability")

    @property
    def mean_size(self) -> float:
        """Posterior mean of the number of variables in the model."""
        return float(self.pip.sum())

    @property
    def problem(self) -> Problem:
        """The problem of the first part; the others differ in the cells that were missing."""
        return self.parts[0].problem

    @property
    def sampler(self) -> str:
        return self.parts[0].sampler

    @property
    def converged(self) -> bool:
        """Whether nothing speaks against trusting the numbers of each part."""
        return all(part.converged for part in self.parts)

    def summary(self) -> pd.DataFrame:
        """A table with one row for each variable, most probable first.

        Returns
        -------
        DataFrame
            `pip`, the posterior inclusion probability; `mcse`, its Monte Carlo error; `imputation_error`, its error due to the number of
            imputations; `lowest` and `highest` of the parts; `mean` and `sd` of the coefficient averaged over models and imputations
            (NaN for a variable of several columns).
        """
        pips = np.array([part.pip for part in self.parts])
        table = pd.DataFrame(
            {
                "pip": self.pip, "mcse": self.mcse, "imputation_error": self.imputation_error,
                "lowest": pips.min(axis=0), "highest": pips.max(axis=0),
            },
            index=pd.Index(self.names, name="variable"),
        )  # fmt: skip
        problem = self.parts[0].problem
        single = np.diff(problem.offsets) == 1
        coefficients = self.coefficients(interval=None)
        of = coefficients.loc[[problem.columns_used[i] for i in problem.offsets[:-1]]]
        for name in ("mean", "sd"):
            table[name] = np.where(single, of[name].to_numpy(), np.nan)
        return table.sort_values("pip", ascending=False, kind="stable")

    def clusters(self, level: float = 0.95, correlation: float = 0.5) -> pd.DataFrame:
        """Sets of variables that stand in for one another, as ``Posterior.clusters`` finds them, from the models of all imputations together.

        Parameters
        ----------
        level : float
            Least probability that at least one variable of the cluster is in the model, averaged over imputations.
        correlation : float
            Least absolute correlation with the cluster's leading variable, averaged over imputations.

        Returns
        -------
        DataFrame, one row for each cluster
            As ``Posterior.clusters``, with `imputation_error`, the error of `probability` that is due to the number of imputations.
        """
        check_share(level, "level")
        check_share(correlation, "correlation")
        return pooled_clusters(self, level, correlation)

    def coefficients(
        self,
        interval: float | None = 0.95,
        seed: int = 0,
        scale: Literal["odds_ratio", "rate_ratio"] | None = None,
    ) -> pd.DataFrame:
        """Coefficients averaged over models and imputations, in the user's units.

        Parameters
        ----------
        interval : float or None
            Probability of an equal-tailed credible interval, taken from draws of all parts; None leaves it out.
        seed : int
            Of these draws.
        scale : "odds_ratio", "rate_ratio" or None
            Exponentiate the coefficients of logistic regression, or those of counts. Columns are then `pip`; `ratio`, exp of the mean; its
            errors `ratio_mcse` and `imputation_error`; `ratio_included`, exp of the mean given that the variable is in; `lower` and `upper`.

        Returns
        -------
        DataFrame, one row for the intercept, each always-included column and each candidate column
            `pip`, `mean`, `sd`; `mean_mcse`, the Monte Carlo error of the mean; `imputation_error`, its error due to the number of imputations;
            `missing_share`, the share of the variance that is between imputations; `lower` and `upper`.
        """
        check_level(interval)
        check_ratio(scale, self.problem.family)
        tables = self._coefficient_tables
        means, sds, errors = (
            np.array([t[name].to_numpy() for t in tables]) for name in ("mean", "sd", "mean_mcse")
        )
        within, between = (sds**2).mean(axis=0), few_parts(len(tables)) * means.var(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(within + between > 0, between / (within + between), 0.0)
        table = pd.DataFrame(
            {
                "pip": np.mean([t["pip"].to_numpy() for t in tables], axis=0),
                "mean": means.mean(axis=0),
                "sd": np.sqrt(within + between),
                "mean_mcse": np.sqrt((errors**2).sum(axis=0)) / len(tables),
                "imputation_error": self.error_between(means),
                "missing_share": share,
            },
            index=tables[0].index,
        )
        if interval is not None:
            draws = [
                part.draw(DRAWS, seed=seed + i)[table.index].to_numpy() for i, part in enumerate(self.parts)
            ]
            inside, pips = (
                np.array([t[name].to_numpy() for t in tables]) for name in ("mean_included", "pip")
            )
            spread = spread_draws(draws, inside, pips, seed)
            table["lower"], table["upper"] = np.quantile(
                spread, [(1 - interval) / 2, (1 + interval) / 2], axis=0
            )
        return table if scale is None else _as_ratios(table)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        interval: float | None = None,
        offset: Any = None,
        kind: Literal["mean", "link"] | None = None,
        seed: int = 0,
    ) -> Any:
        """Predict new rows, averaged over models and imputations.

        Parameters
        ----------
        X : DataFrame, shape (m, columns)
            New rows. Missing cells are drawn given the cells that are known, without knowing the response, and predictions averaged
            over these draws; this needs the `imputations` that ``pool`` was given.
        return_std, interval, offset, kind
            As for ``Posterior.predict``; they are about the mean if the family is neither Gaussian nor Student. The ends of intervals are
            quantiles of draws.
        seed : int
            Of the draws of missing cells and of intervals.

        Returns
        -------
        mean, shape (m,); if asked for, a tuple of it with std, shape (m,), and interval, shape (m, 2)
        """
        check_level(interval)
        centres, variances = [], []
        drawn: list[np.ndarray] = []
        for i, part in enumerate(self.parts):
            tables = self._completed(X, i, seed)
            found = predictions(part, tables, offset, kind)
            if interval is not None:
                drawn += draws_of(part, tables, offset, seed + len(drawn))
            means = np.array([mean for mean, _ in found])
            centres.append(means.mean(axis=0))
            variances.append(np.mean([std**2 for _, std in found], axis=0) + means.var(axis=0))
        mean = np.mean(centres, axis=0)
        std = np.sqrt(np.mean(variances, axis=0) + few_parts(len(self.parts)) * np.var(centres, axis=0))
        results: list[Any] = [mean]
        if return_std:
            results.append(std)
        if interval is not None:
            levels = [(1 - interval) / 2, (1 + interval) / 2]
            # draws of a part are moved away from the mean of all, as far as its mean is to be
            own = np.reshape([draws.mean(axis=0) for draws in drawn], (len(self.parts), -1, len(mean))).mean(
                axis=1
            )
            further = (np.sqrt(few_parts(len(self.parts))) - 1) * (own - own.mean(axis=0))
            each = len(drawn) // len(self.parts)
            moved = np.concatenate([draws + further[i // each] for i, draws in enumerate(drawn)])
            results.append(_of_predictor(self.problem.family)(np.quantile(moved, levels, axis=0).T))
        return tuple(results) if len(results) > 1 else mean

    def _completed(self, X: Any, which: int, seed: int) -> Sequence[Any]:
        if self.imputations is None:
            return [X]
        return self.imputations.complete_new(X, which, seed)

    def select(self, threshold: float = 0.5) -> list[str]:
        """Variables with at least this inclusion probability, most probable first."""
        check_share(threshold, "threshold")
        order = np.argsort(-self.pip, kind="stable")
        return [self.names[j] for j in order if self.pip[j] >= threshold]

    def top_models(self, n: int = 10) -> pd.DataFrame:
        """The n most probable models, averaged over imputations.

        A model γ has the probability Σᵢ p(γ | y, Xᵢ) / m, with Xᵢ the i-th of m completed tables.

        Returns
        -------
        DataFrame, one row for each model
            `size`; `probability`; `imputation_error`, its error due to the number of imputations; `lowest` and `highest` of the parts; `variables`.
        """
        best, shares = self._best_models(n)
        return pd.DataFrame(
            {
                "size": [len(members) for members in best],
                "probability": shares.mean(axis=1),
                "imputation_error": self.error_between(shares.T),
                "lowest": shares.min(axis=1, initial=1.0),
                "highest": shares.max(axis=1, initial=0.0),
                "variables": [", ".join(self.names[j] for j in members) for members in best],
            },
            index=pd.RangeIndex(1, len(best) + 1, name="model"),
        )

    def _best_models(self, n: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
        """The n most probable models, and their probabilities in each part, (n, parts)."""
        kept, m = [part.kept for part in self.parts], len(self.parts)
        # sums of random numbers, one for each variable, by which models are told apart
        keys = np.random.default_rng(0).integers(2**63, size=len(self.names), dtype=np.uint64)
        sums = [np.concatenate([[np.uint64(0)], np.cumsum(keys[k.members], dtype=np.uint64)]) for k in kept]
        names = np.concatenate([total[k.start[1:]] - total[k.start[:-1]] for total, k in zip(sums, kept)])
        owner = np.repeat(np.arange(m), [len(k) for k in kept])
        place = np.concatenate([np.arange(len(k)) for k in kept])
        weight = np.concatenate([k.weight for k in kept])
        _, first, which = np.unique(names, return_index=True, return_inverse=True)
        chosen = np.argsort(-np.bincount(which, weight), kind="stable")[:n]
        shares = np.zeros((len(chosen), m))
        for row, model in enumerate(chosen.tolist()):
            at = np.flatnonzero(which == model)
            shares[row, owner[at]] = weight[at]
        return [kept[owner[at]].model(place[at]) for at in first[chosen].tolist()], shares

    def report(
        self, path: Any, title: str | None = None, brief: bool = False, check: ResidualCheck | None = None
    ) -> Path:
        """Write a report, as ``Posterior.report`` does, with what was missing and how far the imputations agree. `check` is the
        ``residual_check`` of one of the parts."""
        # imported late and by name: the layer of reports is above this one, and reports need optional packages
        report = importlib.import_module("whichvars.report")
        written: Path = report.write_report(self, path, title, brief, check)
        return written

    def explain(self) -> str:
        """The answer and how far to trust it, in plain words."""
        m, likely = len(self.parts), self.select()
        error, missing = np.nanmax(self.mcse, initial=0.0), np.nanmax(self.imputation_error, initial=0.0)
        sampling = f"{max(error, 0.0001):.2g} from sampling and " if error else ""
        lines = [
            f"{likely_words(likely, len(self.names))}. A model has {self.mean_size:.1f} variables on average.",
            f"This is the average of {m} posteriors, one for each imputation of the missing values, which are assumed to be missing at random. "
            f"The largest error of an inclusion probability is {sampling}{missing:.2g} from the number of imputations.",
        ]
        lines[0] = " ".join([lines[0], *self._sets_and_effects()])
        if missing > 0.05:
            lines.append("More imputations (m) would make the probabilities more accurate.")
        # what speaks against the numbers comes first
        lines = [
            *(
                f"Imputation {i + 1}: {part.explain().splitlines()[0]}"
                for i, part in enumerate(self.parts)
                if not part.converged
            ),
            *lines,
        ]
        if self.imputations is not None:
            lines += self.imputations.notes
        return "\n".join(lines)

    def _sets_and_effects(self) -> list[str]:
        """Sentences about stand-ins, and about odds and rates, if the numbers can be trusted."""
        if not self.converged:
            return []
        table = pooled_standard_effects(self)
        chosen = [int(j) for j in np.argsort(-self.pip, kind="stable") if self.pip[j] >= 0.5]
        chosen = [j for j in chosen if not np.isnan(table["effect"].iloc[j])]
        sentences = effect_sentence(self.problem, table.iloc[chosen[:MENTIONED]])
        return stand_in_sentences(self.clusters(ALMOST_CERTAIN)) + sentences

    def methods(self) -> str:
        """A paragraph for the methods section of a paper, with references, as ``Posterior.methods`` gives it."""
        first, _, sources = methods_paragraph(self.parts[0], self).partition("\n\n")
        cells = "" if self.imputations is None else f" ({int(self.imputations.gaps.sum()):,} cells)"
        sentence = (
            f"Missing values{cells} were assumed to be missing at random and were imputed {len(self.parts)} times by chained Bayesian regressions "
            "that included the response; posteriors were averaged over imputations."
        )
        return f"{first} {sentence}\n\n{sources}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, as ``Posterior.save`` does; the response is not needed again and left out."""
        kept = None if self.imputations is None else to_stored(self.imputations)
        content = {"parts": list(self.parts), "imputations": kept}
        storage.save(path, "pooled posterior", content, (*STORED, Kinds))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PooledPosterior":
        """Read what ``save`` wrote."""
        content = storage.load(path, "pooled posterior", (*STORED, Kinds))
        kept = content["imputations"]
        return cls(tuple(content["parts"]), None if kept is None else from_stored(kept))

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.summary().head(10).round(3).to_string()}"

    def _repr_html_(self) -> str:
        first = self.summary().head(MOST_ROWS)
        text = formatted(first, not self.mcse.any())
        return notebook_table(self._heading(), text, first, len(self.names) - len(first))

    def _heading(self) -> str:
        return f"Posterior of {count(len(self.names), 'variable')}, averaged over {count(len(self.parts), 'imputation')}: mean model size {self.mean_size:.2f}"


def _as_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Coefficients as factors by which odds or rates are multiplied."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.exp(table["mean"])
        new = pd.DataFrame(
            {
                "pip": table["pip"],
                "ratio": ratio,
                "ratio_mcse": ratio * table["mean_mcse"],
                "imputation_error": ratio * table["imputation_error"],
                "ratio_included": np.exp(table["mean"] / table["pip"]),
            }
        )
        if "lower" in table:
            new["lower"], new["upper"] = np.exp(table["lower"]), np.exp(table["upper"])
    return new


def _of_predictor(family: Family) -> Callable[[np.ndarray], np.ndarray]:
    """From what ``draws_of`` draws to what intervals are about."""
    return {"logistic": expit, "probit": ndtr, "gaussian": np.positive, "student": np.positive}.get(
        family.name, np.exp
    )


def pool(posteriors: Sequence[Posterior], imputations: Imputations | None = None) -> PooledPosterior:
    """Mix posteriors of completed copies of one table, made by ``impute`` or by another program.

    Parameters
    ----------
    posteriors : sequence of Posterior
        One for each completed table, with the same variables, priors and family.
    imputations : Imputations
        What ``impute`` returned, if the tables were made by it; it lets ``predict`` complete new rows.

    Returns
    -------
    PooledPosterior

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(60, 3))
    >>> y = X[:, 0] + rng.normal(size=60)
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> imputations = wv.impute(X, y, m=4)
    >>> posterior = wv.pool([wv.exact(wv.Problem(Xi, imputations.y)) for Xi in imputations], imputations)
    >>> posterior.select(threshold=0.9)
    ['x0']
    >>> bool((posterior.imputation_error > 0).all())
    True
    """
    parts = list(posteriors)
    if not parts or not all(isinstance(part, Posterior) for part in parts):
        raise ArgumentTypeError("pool needs posteriors, one for each completed table: pool([posterior, …])")
    first = parts[0].problem
    for i, part in enumerate(parts[1:], start=2):
        problem = part.problem
        for what, a, b in (
            ("variables", first.names, problem.names),
            ("columns", first.columns_used, problem.columns_used),
            ("always-included columns", first.always_names, problem.always_names),
            ("rows", first.n, problem.n),
            ("family", first.family.name, problem.family.name),
            ("slab", first.slab, problem.slab),
        ):
            if a != b:
                raise DataError(
                    f"posterior {i} has other {what} than the first ({b} and {a}); all must be of completed copies of one table"
                )
    if imputations is not None and len(imputations) != len(parts):
        raise DataError(
            f"there are {len(parts)} posteriors but {len(imputations)} imputations; give one posterior for each"
        )
    return PooledPosterior(tuple(parts), imputations)
