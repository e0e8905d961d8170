r"""Problems from summary statistics of single variants: z-scores, or effects and standard errors, and correlations (LD).

The z-score of a simple regression with intercept on n rows and the correlation of the variant with y are the same thing,

.. math:: r_j = z_j / \sqrt{z_j^2 + n - 2},

so that z, R and n are sufficient for the posterior. If n is not known, it is taken to be so large that the noise variance is known:
:math:`z \mid b \sim N(Rb, R)`, where b is the expected score of each causal variant.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from whichvars._kernels import evidence
from whichvars.data.statistics import SufficientStatistics
from whichvars.errors import DataError, DataWarning
from whichvars.problem.genetics import default_region_prior, default_slab, wide_enough
from whichvars.problem.ld_consistency import (
    OUTLIER,
    Consistency,
    Spectrum,
    consistency,
    contradicting,
    leading_variants,
)
from whichvars.problem.model_priors import ModelPrior
from whichvars.problem.priors import IndependentNormal, KnownVariance, Slab
from whichvars.problem.problem import Problem
from whichvars.problem.summary_inputs import read_n, read_share, read_summary, read_y_sd

# least prior variance of expected scores if the number of rows is not known
SCORE_VARIANCE = 50.0
# shares of the identity from which there is a warning, and from which z and R do not belong together
WARNED, REFUSED = 0.01, 0.4
# what variants may explain beyond the leading ones, in units of what they would explain by chance, before n counts as wrong
MOST_BY_CHANCE = 2.0
# eigenvalues above this are not negative but for rounding
ROUNDING = -1e-10
SHOWN = 8
# a score for which a panel of some hundred people makes false signals
STRONG_SCORE = 20.0
# correlations below which signs are a matter of chance, and how many of them say something
SMALL_CORRELATION, MANY_SMALL = 0.02, 50


class SummaryCheck(NamedTuple):
    """How well z-scores and LD fit together; made by ``check_summary``.

    Attributes
    ----------
    s : float
        R is replaced by (1 − s) R + s I.
    least_eigenvalue : float
        Of R; below 0 it is not positive semi-definite.
    variants : DataFrame, one row for each variant
        `z`, as √(n − 1) times the correlation with y, which differs from the score of a strong effect; `expected`, its expectation given the scores of all other variants, and `sd`; `difference` in standard deviations;
        `log_ratio`, the log likelihood ratio of a score with the other sign to the score itself; `verdict`: "flipped" if the sign is
        probably the wrong one, "outlier" if the difference is above 5 (causal variants without a close proxy are outliers too), "" otherwise.
    """

    s: float
    least_eigenvalue: float
    variants: pd.DataFrame

    @property
    def flipped(self) -> list[str]:
        """Variants whose alleles are probably swapped."""
        return self.variants.index[self.variants["verdict"] == "flipped"].tolist()


def from_summary(
    *,
    R: Any,
    z: Any = None,
    beta: Any = None,
    se: Any = None,
    n: int | None = None,
    y_sd: float | None = None,
    names: Sequence[str] | None = None,
    slab: Slab | None = None,
    model_prior: ModelPrior | None = None,
    max_size: int | None = None,
    regularise: float | Literal["auto"] = "auto",
    check: Literal["refuse", "warn", "none"] = "refuse",
) -> Problem:
    r"""A ``Problem`` from summary statistics: fine mapping without the genotypes, like susieR's ``susie_rss``.

    With LD of the same people, the posterior is that of the individual data to rounding errors, for every slab. With LD of a reference panel,
    R is replaced by (1 − s) R + s I with s estimated; the module ``ld_consistency`` says how. A warning states s if it is above 0.01.
    If all variants together would then still explain more than all of the variance, as they often do with a small panel and about as many variants
    as people, the noise variance counts as known, and as large as the variance of y. A warning says so, and by how much R² is understated.

    Parameters
    ----------
    R : array or DataFrame, shape (p, p)
        Correlations of the variants. Its names, if it has any, are those of the problem.
    z : array or Series, shape (p,)
        z-scores: effect divided by standard error in a regression on one variant at a time.
    beta, se : array or Series, shape (p,)
        Instead of z: effects and their standard errors. Coefficients are then in the units of `beta` if `y_sd` is given, and otherwise
        in standard deviations of y per unit of the variant.
    n : int
        Number of people; with q covariates in the regressions, n − q. Without it the noise variance counts as known, the slab must be
        ``IndependentNormal(g)``, and g is the prior variance of the expected z-score of a causal variant, by default 50. Give n if you
        can: without it, strong effects are overstated.
    y_sd : float
        Standard deviation of y.
    names : sequence of str
        Names of the variants; they replace those of R.
    slab : Slab
        Prior on effects. The default with n is ``IndependentNormal(0.01)``: a causal variant explains about 1 % of the variance. With and without n, the
        default is wider if an effect is large, so that no variant alone has an effect of more than one prior standard deviation: a
        prior that is much too narrow for an effect would share it among copies of a variant.
    model_prior
        Prior on which variants matter. The default is ``BetaBinomial(size=1)``: one is expected.
    max_size : int
        As in ``Problem``.
    regularise : "auto" or float
        s: estimated, or between 0 and 1. 0 is for LD of the same people; "auto" finds out that it can be 0.
    check : "refuse", "warn" or "none"
        What happens if z and R contradict each other: an error, a warning, or nothing. Both name the variants.

    Returns
    -------
    Problem

    See Also
    --------
    check_summary : How well z and R fit together, variant by variant.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> R = np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]])
    >>> problem = wv.from_summary(z=[8.1, 7.4, 1.0], R=R, n=5000, names=["rs1", "rs2", "rs3"])
    >>> wv.exact(problem).inclusion_probabilities.round(2).to_dict()
    {'rs1': 1.0, 'rs2': 0.18, 'rs3': 0.09}
    """
    labels, scores, correlations, errors = read_summary(z, beta, se, R, names)
    if check not in ("refuse", "warn", "none"):
        raise DataError(f"check must be 'refuse', 'warn' or 'none', not {check!r}")
    rows, own_sd = read_n(n), read_y_sd(y_sd)
    _check_slab(slab, n)
    with threadpool_limits(limits=1, user_api="blas"):
        spectrum = Spectrum(*np.linalg.eigh(correlations))
        y_correlations = scores / np.sqrt(scores**2 + rows - 2)
        explained = 1.0
        if regularise == "auto":
            can_be_known = slab is None or slab.code != evidence.MIXTURE
            found = _consistency(y_correlations, rows, correlations, spectrum, can_be_known)
            standard = y_correlations * np.sqrt(rows - 1)
            _judge(found, labels, check, contradicting(standard, found), float(np.abs(standard).max()))
            if check != "none":
                _warn_of_squares(correlations)
            s, explained = found.s, found.explained
            if s > REFUSED and explained <= 1 and not _is_possible(spectrum, y_correlations, s):
                raise DataError(
                    f"no n people can have these z, whatever R is: the largest, of {labels[int(np.abs(scores).argmax())]!r}, is {np.abs(scores).max():.3g}, and all "
                    "variants together would explain more than all of the variance. Correct n, or the scores that are too large"
                )
        else:
            s = read_share(regularise)
            _check_possible(spectrum, y_correlations, s)
        mixed = (1 - s) * correlations + s * np.eye(len(labels))
        np.fill_diagonal(mixed, 1.0)
        spread: Any = None
        if n is None:
            spread = 1 / np.sqrt(rows - 1)
        elif errors is not None:
            # from the variance of a simple regression, se² (n − 2) = s_y² (1 − r²) / s_x²
            spread = np.sqrt((1 - y_correlations**2) / (rows - 2)) / errors
            spread = spread * own_sd
        # with a known noise variance the length of y does not matter; it is made so long that there can be such data
        longer = np.sqrt(explained)
        statistics = SufficientStatistics.from_correlations(
            mixed, y_correlations / longer, rows, sd=spread, y_sd=own_sd * longer, names=labels
        )
    prior = default_region_prior(len(labels)) if model_prior is None else model_prior
    settings: dict[str, Any] = {"model_prior": prior, "max_size": max_size}
    if n is None:
        settings |= {"noise": KnownVariance(1.0), "scale": "none"}
    elif explained > 1:
        settings |= {"noise": KnownVariance(own_sd**2)}
    if slab is not None:
        return Problem(statistics, slab=slab, **settings)
    usual = default_slab() if n is not None else IndependentNormal(SCORE_VARIANCE)
    return wide_enough(Problem(statistics, slab=usual, **settings))


def check_summary(
    *,
    R: Any,
    z: Any = None,
    beta: Any = None,
    se: Any = None,
    n: int | None = None,
    names: Sequence[str] | None = None,
) -> SummaryCheck:
    """How well z-scores and LD fit together: how much of R must be replaced, and which variants contradict the others.

    Parameters
    ----------
    R, z, beta, se, n, names
        As in ``from_summary``.

    Returns
    -------
    SummaryCheck
        Like susieR's ``estimate_s_rss`` and ``kriging_rss`` together; s is that of ``from_summary`` with the default slab.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> place = np.arange(8)
    >>> R = 0.9 ** np.abs(place[:, None] - place)
    >>> z = 9 * R[3]
    >>> z[2] = -z[2]
    >>> check = wv.check_summary(z=z, R=R, n=1000)
    >>> check.flipped
    ['x2']
    >>> check.variants.loc["x2", ["z", "expected"]].round(1).tolist()
    [-7.9, 7.8]
    """
    labels, scores, correlations, _ = read_summary(z, beta, se, R, names)
    rows = read_n(n)
    with threadpool_limits(limits=1, user_api="blas"):
        spectrum = Spectrum(*np.linalg.eigh(correlations))
        y_correlations = scores / np.sqrt(scores**2 + rows - 2)
        scores = y_correlations * np.sqrt(rows - 1)
        found = _consistency(y_correlations, rows, correlations, spectrum)
    difference = (scores - found.expected) / found.sd
    verdict = np.where(np.abs(difference) > OUTLIER, "outlier", "")
    verdict[found.flipped] = "flipped"
    table = pd.DataFrame(
        {
            "z": scores, "expected": found.expected, "sd": found.sd, "difference": difference, "log_ratio": found.log_ratio,
            "verdict": verdict.astype(object),
        },
        index=pd.Index(labels, dtype=object, name="variant"),
    )  # fmt: skip
    return SummaryCheck(found.s, float(spectrum.values[0]), table)


def _check_slab(slab: Slab | None, n: int | None) -> None:
    if n is None and slab is not None and not isinstance(slab, IndependentNormal):
        raise DataError(
            f"without n the slab must be IndependentNormal, whose g is the prior variance of an expected z-score, not {slab!r}; give n"
        )


# --- is it possible, and is it likely?


def _explained(spectrum: Spectrum, y_correlations: np.ndarray, s: float) -> float:
    """R² of all variants together; above 1 no data can have such correlations."""
    values = spectrum.mixed(s)
    parts = (spectrum.vectors.T @ y_correlations) ** 2
    inside = values > 1e-13
    outside = float(parts[~inside].sum())
    return float(np.sum(parts[inside] / values[inside])) + (np.inf if outside > 1e-20 else 0.0)


def _is_possible(spectrum: Spectrum, y_correlations: np.ndarray, s: float) -> bool:
    joint = spectrum.mixed(s)[0] >= ROUNDING / 2
    if not joint:
        return False
    if _explained(spectrum, y_correlations, s) <= 1:
        return True
    # equal to 1 but for rounding, as with more variants than people
    p = len(y_correlations)
    matrix = np.ones((p + 1, p + 1))
    matrix[:p, :p] = (spectrum.vectors * spectrum.mixed(s)) @ spectrum.vectors.T
    matrix[:p, p] = matrix[p, :p] = y_correlations
    return float(np.linalg.eigvalsh(matrix)[0]) >= ROUNDING / 2


def _least_share(spectrum: Spectrum, y_correlations: np.ndarray) -> float:
    """The smallest s for which there can be data with such correlations."""
    if _is_possible(spectrum, y_correlations, 0.0):
        return 0.0
    low, high = 1e-12, 1.0
    while high / low > 1.05:
        middle = float(np.sqrt(low * high))
        good = spectrum.mixed(middle)[0] > 0 and _explained(spectrum, y_correlations, middle) < 1 - 1e-9
        low, high = (low, middle) if good else (middle, high)
    return high


def _consistency(
    y_correlations: np.ndarray, rows: int, R: np.ndarray, spectrum: Spectrum, can_be_known: bool = True
) -> Consistency:
    """How well z and R fit together. If all variants together would explain more than all of the variance, as they often do with LD of few other
    people, the noise variance counts as known if it can; otherwise s is so large that there can be data with such correlations."""
    scores = y_correlations * np.sqrt(rows - 1)
    found = consistency(scores, R, spectrum)
    least = _least_share(spectrum, y_correlations)
    if least <= max(found.s, WARNED):
        return found._replace(s=max(found.s, least))
    leading = leading_variants(scores, R)
    alone = y_correlations[leading] @ np.linalg.lstsq(R[np.ix_(leading, leading)], y_correlations[leading], rcond=None)[0]  # fmt: skip
    s = max(found.s, WARNED)
    explained = _explained(spectrum, y_correlations, s)
    # chance alone makes p variants explain about p/n
    by_chance = (explained - alone) * rows / len(scores)
    if alone >= 1 or by_chance > MOST_BY_CHANCE or not can_be_known:
        return found._replace(s=max(found.s, least), for_n=least > REFUSED >= found.s)
    return found._replace(s=s, explained=1.0001 * explained)


def _check_possible(spectrum: Spectrum, y_correlations: np.ndarray, s: float) -> None:
    if not _is_possible(spectrum, y_correlations, s):
        least = float(spectrum.mixed(s)[0])
        why = (
            f"R is not positive semi-definite: its smallest eigenvalue is {least:.3g}"
            if least < ROUNDING / 2
            else "all variants together would explain more than all of the variance"
        )
        raise DataError(
            f"with regularise={s:g}, no data can have these z and R: {why}. Use regularise='auto'"
        )


def _warn_of_squares(R: np.ndarray) -> None:
    """Of the correlations near 0 about one half is negative, but none of their squares."""
    # zeros may be correlations that were rounded, or left out
    small = (np.abs(R) < SMALL_CORRELATION) & (R != 0)
    count = int(small.sum()) // 2
    if count >= MANY_SMALL and not np.any(R[small] < 0):
        warnings.warn(
            f"none of the {count:,} correlations in R that are below {SMALL_CORRELATION:g} is negative, as about half of them should be. R must have correlations r; are these their squares r²?",
            DataWarning,
            stacklevel=3,
        )


def _listed(labels: list[str], which: Sequence[int]) -> str:
    return ", ".join(repr(labels[j]) for j in which[:SHOWN]) + ", …" * (len(which) > SHOWN)


def _false_signals(largest: float) -> str:
    """What to add if LD of other people makes false signals that seem certain: their correlations of variants without LD are of size 1/√m."""
    if largest < STRONG_SCORE:
        return ""
    return (
        f". The largest score is {largest:.0f}, for which LD of m other people makes false signals with scores of up to about three times {largest:.0f}/√m. Do not "
        "trust further signals of that size"
    )


def _judge(
    found: Consistency, labels: list[str], check: str, contradicted: list[int], largest: float
) -> None:
    """An error or a warning if z and R contradict each other; a warning if the others contradict single scores, or if much of R was replaced."""
    message = ""
    if found.flipped:
        some = _listed(labels, found.flipped)
        many = len(found.flipped)
        message = (
            f"{'the sign of the z-score contradicts' if many == 1 else f'the signs of {many:,} z-scores contradict'} R and the other z-scores: {some}. "
            "Probably z and R count different alleles there; turn the sign round or leave the variant out. check_summary shows the numbers"
        )
    elif contradicted and (found.for_n or found.s > REFUSED):
        one = len(contradicted) == 1
        message = (
            f"z and R contradict each other most at {_listed(labels, contradicted)}: {'is its score' if one else 'are their scores'} right? "
            f"{'It is' if one else 'They are'} not what R and the other scores lead to expect. Correct {'it' if one else 'them'}, or leave such variants "
            "out; check_summary shows the numbers. Otherwise make sure that n is right, and that R is of people of the same ancestry"
        )
    elif found.for_n:
        message = (
            "R and n contradict each other: with this R, all variants together would explain more than all of the variance of n people. Is n right? If it "
            "is, the panel is too small for so many variants: take a larger one, leave out variants that are nearly copies of others, or use "
            "slab=IndependentNormal(g), for which the noise variance can count as known"
        )
    elif found.s > REFUSED:
        message = (
            f"z and R do not belong together: only {1 - found.s:.0%} of R could be used (s = {found.s:.2g}). Make sure that the variants are in the same order, "
            "that both count the same allele, that n is right, and that R is of people of the same ancestry"
        )
    if message and check == "refuse":
        raise DataError(
            f"{message}{'' if message.endswith('?') else '.'} If you have made sure that all is right, use check='warn'"
        )
    if message and check == "warn":
        warnings.warn(message, DataWarning, stacklevel=3)
    if contradicted and not message and check != "none":
        one = len(contradicted) == 1
        warnings.warn(
            f"{'the score' if one else 'the scores'} of {_listed(labels, contradicted)} {'differs' if one else 'differ'} much from what R and the other "
            "scores lead to expect, and only an effect that is many times as large as the others seem could explain it. Probabilities of variants near "
            f"{'it' if one else 'them'} may be wrong. Make sure that the scores are right and of the same people as the others; check_summary shows the numbers",
            DataWarning,
            stacklevel=3,
        )
    if found.explained > 1 and check != "none":
        warnings.warn(
            "with this R, all variants together would explain more than all of the variance of y, as often with LD of few other people. "
            "Therefore the noise variance counts as known, and as large as the variance of y, as in susieR's susie_rss; multiply values of R² by "
            f"{found.explained:.3g}",
            DataWarning,
            stacklevel=3,
        )
    if found.s > WARNED and check != "none":
        warnings.warn(
            f"R was replaced by (1 - s) R + s I with s = {found.s:.3g}, as R and the z-scores do not agree entirely; this is usual for LD of other "
            f"people. Effects of correlated variants are told apart less well than with LD of the same people{_false_signals(largest)}",
            DataWarning,
            stacklevel=3,
        )
