r"""Can the answer be trusted? Numbers, one verdict, and the same in plain words.

**R-hat of an inclusion probability.** The indicator of a variable has variance p(1 − p) within a replicate, so with m
replicates of means p_r its R-hat is

.. math:: \hat R = \sqrt{1 + \frac{\mathrm{Var}_r(p_r)}{\mathrm{mean}_r\, p_r (1 - p_r)}},

1 where replicates agree; the number of draws, large, does not enter. Model size and log posterior have the
rank-normalised split R-hat and bulk effective sample size of their thinned records (arviz-stats).

**A variable never seen.** If it was in none of the draws, its Monte Carlo error is unknown, not zero. Had its inclusion
probability been above 3/N, then N independent draws would have shown it with probability 95 % ("rule of three"). N is
taken as the smallest of the effective sample sizes of model size, of log posterior, and the median of those of the
inclusion probabilities. One that was always in has 1 − 3/N as its lower bound. The bounds presume that the run has
seen all modes.

**Several roads to the same number.** Inclusion probabilities can be estimated as shares of draws, as averages of
conditional probabilities, from the weighted models that all averages are taken over, and from the exact ratios of the best
models alone. They share the draws, but not the arithmetic. Where two of them differ by more than their errors allow,
something is wrong that no Monte Carlo error shows. "Allow" means 3 combined standard errors, or more where there are so many
variables that 3 would be exceeded by chance in one run of a hundred; the exact ratios say nothing of models that were never
met, whose mass is the estimated total less that of the best models. So a run that has met nearly all models, but
visited them in other proportions than their exact probabilities, is found out. The exact ratios have no Monte Carlo error of their
own: where they differ from an inclusion probability by more than .01, which matters, only the error that the run claims for it is
allowed, and nothing for the shares of draws.

``checks`` has the checks of replicates against one another.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp, ndtri

from whichvars.posterior import checks

if TYPE_CHECKING:
    from whichvars.posterior.models import KeptModels
    from whichvars.posterior.posterior import Models, Posterior


ACCEPTABLE = 0.05  # Monte Carlo error of an inclusion probability above which a run is not called accurate
APART = 1.1  # R-hat from which on replicates are said to disagree
ALONE = 10_000  # iterations of a run with a single replicate, below which nothing can tell whether its errors are right
ENOUGH = 100.0  # effective draws, below which a reweighted posterior is called too thin
NEGLIGIBLE = 0.002  # difference between two estimates of an inclusion probability that nobody minds
MATTERS = 0.01  # and one that must not exceed what the run claims, if one of the two estimates is exact
SIZE, LOG_POSTERIOR = "(model size)", "(log posterior)"


def doubts(posterior: "Posterior", acceptable: float = ACCEPTABLE) -> list[str]:
    """Why the numbers of a posterior should not be trusted yet, the weightiest reason first; empty if they can be.

    The one verdict that all faces of the package show: ``converged``, ``explain``, the report, the command line and the
    warnings of ``sample``. `acceptable` is the largest Monte Carlo error of an inclusion probability that is accepted.
    """
    if posterior.models.exact:
        return _too_few_left(posterior)
    return [
        *_unknown_errors(posterior),
        *_missing_replicates(posterior),
        *_short_and_alone(posterior),
        *_too_few_left(posterior),
        *_large_errors(posterior, acceptable),
        *checks.against_itself(posterior, acceptable, bool(disagreement(posterior))),
        *_contradictions(posterior),
    ]


def _unknown_errors(posterior: "Posterior") -> list[str]:
    if not np.isnan(posterior.mcse).all():
        return []
    replicates = 0 if posterior.replicate_pips is None else len(posterior.replicate_pips)
    if replicates < 2:
        return [
            "the errors of the probabilities cannot be told: there is a single run, and it has nothing to be compared with. "
            "Use replicates=4"
        ]
    return [
        "nothing moved: all draws are of one model, so that the errors of the probabilities cannot be told. The posterior may "
        "be that concentrated, or the sampler may be stuck: start elsewhere, or use more draws or another sampler"
    ]


def _missing_replicates(posterior: "Posterior") -> list[str]:
    """Fewer runs than were asked for."""
    asked = posterior.settings.get("replicates")
    if asked is None or posterior.replicate_pips is None or len(posterior.replicate_pips) >= asked:
        return []
    return [
        f"only {len(posterior.replicate_pips)} of {count(asked, 'replicate')} had counted anything when the run ended, so that "
        "there is less to compare than was asked for. Give it more time"
    ]


def _short_and_alone(posterior: "Posterior") -> list[str]:
    """A single short run: its errors come from a few batches, and there is no second run to hold them against."""
    alone = posterior.replicate_pips is not None and len(posterior.replicate_pips) == 1
    if not alone or np.isnan(posterior.mcse).all() or posterior.iterations >= ALONE:
        return []
    return [
        f"a single replicate of {posterior.iterations:,} iterations is too short to be trusted alone: below {ALONE:,} its errors come "
        "from a few batches, and there is no other replicate to compare it with. Use replicates=4, or more draws"
    ]


def _too_few_left(posterior: "Posterior") -> list[str]:
    left, condition = posterior.reweighting_ess, posterior.condition
    if condition is not None and not condition.enough and posterior.models.exact:
        return [
            "the condition is so improbable that few of the models that satisfy it were kept. Run exact() on a problem with "
            "always_include=… or without the columns"
        ]
    if left is None or left >= ENOUGH:
        return []
    if condition is not None:
        return [
            f"only {left:,.0f} effective draws satisfy the condition, fewer than {ENOUGH:.0f}. Sample a problem with always_include=… or "
            "without the columns"
        ]
    return [
        f"only {left:,.0f} effective draws are left under these priors, fewer than {ENOUGH:.0f}. Sample under these priors"
    ]


def _large_errors(posterior: "Posterior", acceptable: float) -> list[str]:
    """Errors that are too large, or replicates that disagree."""
    if np.isnan(posterior.mcse).all():
        return []
    j = int(np.nanargmax(posterior.mcse))
    worst, apart = float(posterior.mcse[j]), disagreement(posterior)
    if worst <= acceptable:
        return [apart] if apart else []
    remedy = apart or (
        "use more draws, or a larger budget: four times as many halve it"
        if posterior.reweighting_ess is None
        else "sample under these priors"
        if posterior.condition is None
        else "sample a problem with always_include=… or without the columns"
    )
    return [
        f"inclusion probabilities are not accurate yet: that of {posterior.problem.names[j]!r} has a Monte Carlo error of "
        f"{worst:.2g}, more than {acceptable:g}; {remedy}"
    ]


def _contradictions(posterior: "Posterior") -> list[str]:
    """Other estimates of the inclusion probabilities that differ by more than errors allow."""
    if posterior.frequencies is None or posterior.reweighting_ess is not None:
        return []
    assert posterior.frequency_mcse is not None
    assert posterior.trace is not None
    pip, p = posterior.pip, posterior.problem.p
    error = np.nan_to_num(posterior.mcse)
    draws_error = np.nan_to_num(posterior.frequency_mcse)
    # a share of draws that was never or always seen may still be off by a few draws in all of them
    counted = max(float(effective_count(posterior)), 1.0)
    draws_error = np.hypot(draws_error, np.sqrt(pip * (1 - pip) / counted))
    most = max(3.0, float(ndtri(1 - 0.005 / p)))
    by_models, models_error = model_pips(posterior.kept, p)
    models_error = np.hypot(models_error, thinning_error(pip, posterior.models, len(posterior.trace)))
    both = most * np.hypot(error, draws_error)
    claimed = np.maximum(most * error, MATTERS)
    allowed = {
        "shares of the draws": both,
        "the weighted models": most * np.hypot(error, np.fmax(models_error, draws_error)),
        "the exact ratios of the best models": np.fmin(both, claimed) + _new_share(posterior),
    }
    estimates = {
        "shares of the draws": posterior.frequencies,
        "the weighted models": by_models,
        "the exact ratios of the best models": renormalised_pips(posterior.models, p),
    }
    averaged_error = posterior.rao_blackwell_mcse
    averaged = posterior.rao_blackwell
    # of few scans the error is not known
    if averaged is not None and averaged_error is not None and not np.isnan(averaged_error).all():
        averages = "averages of conditional probabilities"
        estimates[averages] = averaged
        allowed[averages] = most * np.hypot(np.hypot(error, draws_error), np.nan_to_num(averaged_error))
    found = []
    for name, values in estimates.items():
        beyond = np.abs(values - pip) - np.maximum(allowed[name], NEGLIGIBLE)
        j = int(np.argmax(beyond))
        if beyond[j] > 0:
            found.append(
                f"two ways of estimating the same probability contradict one another: that of {posterior.problem.names[j]!r} is "
                f"{pip[j]:.3f}, but {values[j]:.3f} by {name}, further apart than their errors allow. Use more draws; if that does not "
                "help, please report it"
            )
    return found[:1]


def effective_count(posterior: "Posterior") -> float:
    """About how many independent draws the shares of draws rest on: the median over variables that moved."""
    share, error = posterior.frequencies, posterior.frequency_mcse
    assert share is not None
    assert error is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        count = share * (1 - share) / error**2
    count = count[np.isfinite(count) & (count > 0)]
    return float(np.median(count)) if len(count) else 1.0


def _new_share(posterior: "Posterior") -> float:
    """Twice the posterior mass beside the best models, and more where it is not known.

    The replicates' estimates of the total say how much there is besides, the largest of them counts; without them the
    share of draws that fell on models never met before does.
    """
    share, comparison = posterior.known_share, posterior.comparison
    if share is None:
        return 1.0
    if comparison is not None and np.isfinite(comparison.log_total).all() and share >= checks.TRUSTED:
        listed = float(logsumexp(posterior.models.log_posterior) - comparison.log_total.max())
        return 2 * max(1 - float(np.exp(min(listed, 0.0))), 0.0)
    return 2 * (1 - min(share, float(posterior.models.frequency.sum())))


def model_pips(kept: "KeptModels", p: int) -> tuple[np.ndarray, np.ndarray]:
    """Inclusion probabilities from the weighted models, (p,), and their Monte Carlo errors; 0 where these cannot be told."""
    sizes = np.diff(kept.start)
    pips = np.bincount(kept.members, np.repeat(kept.weight, sizes), p)
    if kept.by_replicate is None or len(kept.by_replicate) < 2:
        return pips, np.zeros(p)
    means = [np.bincount(kept.members, np.repeat(w, sizes), p) for w in kept.by_replicate]
    return pips, np.std(means, axis=0, ddof=1) / np.sqrt(len(means))


def thinning_error(pip: np.ndarray, models: "Models", recorded: int) -> np.ndarray:
    r"""The error of inclusion probabilities from the weighted models that comes of thinning, (p,).

    Beside the best models, the weighted models are a thinned sample. If the others have a share o of the mass, and a variable has
    probability q among *these*, the share of both is known with variance

    .. math:: o\, q (1 - q) / N

    from a record of N draws, of which oN are of other models. A variable that is in few of the best models has a q far above its
    inclusion probability.
    """
    listed = models.listed
    others = max(1 - float(models.frequency.sum()), 0.0)
    among_best = np.bincount(listed.members, np.repeat(models.frequency, np.diff(listed.start)), len(pip))
    q = np.clip((pip - among_best) / max(others, 1e-300), 0.0, 1.0)
    return np.sqrt(others * q * (1 - q) / max(recorded, 1))


def r_hat_of_means(means: np.ndarray | None) -> np.ndarray | None:
    """R-hat of indicators from their means by replicate, (replicates, p) → (p,): NaN where nothing moved; ∞ where
    each replicate is sure of something else."""
    if means is None or len(means) < 2:
        return None
    within = (means * (1 - means)).mean(axis=0)
    between = means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1 + between / within)


def renormalised_pips(models: "Models", p: int) -> np.ndarray:
    """Inclusion probabilities from the exact ratios of the best models visited, (p,)."""
    weight = np.exp(models.log_posterior - logsumexp(models.log_posterior))
    listed = models.listed
    return np.minimum(np.bincount(listed.members, np.repeat(weight, np.diff(listed.start)), p), 1.0)


def record_statistics(trace: pd.DataFrame, column: str) -> tuple[float, float, float]:
    """Mean, bulk effective sample size and R-hat of a column of the thinned record, every chain of every replicate
    on its own."""
    from arviz_stats.base import array_stats  # takes a third of a second to import

    chains = [part[column].to_numpy(float) for _, part in trace.groupby(["replicate", "chain"])]
    length = min(map(len, chains))
    values = np.array([chain[-length:] for chain in chains])
    mean = float(values.mean())
    if length < 4 or np.ptp(values) == 0:
        return mean, np.nan, np.nan
    several = len(values) > 1
    return (
        mean,
        float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")),
        float(array_stats.rhat(values, chain_axis=0, draw_axis=1)) if several else np.nan,
    )


def diagnostic_table(posterior: "Posterior") -> pd.DataFrame:
    """What ``Posterior.diagnostics`` returns."""
    problem, p = posterior.problem, posterior.problem.p
    unknown = np.full(p, np.nan)
    r_hat = r_hat_of_means(posterior.replicate_pips)
    lowest = highest = unknown
    if posterior.replicate_pips is not None and len(posterior.replicate_pips):
        lowest, highest = posterior.replicate_pips.min(axis=0), posterior.replicate_pips.max(axis=0)
    table = pd.DataFrame(
        {
            "estimate": posterior.pip,
            "mcse": posterior.mcse,
            "ess": posterior.inclusion_ess.to_numpy(),
            "r_hat": unknown if r_hat is None else r_hat,
            "lowest": lowest,
            "highest": highest,
            "frequency": unknown if posterior.frequencies is None else posterior.frequencies,
            "renormalised": unknown if posterior.models.exact else renormalised_pips(posterior.models, p),
            "rao_blackwell": unknown if posterior.rao_blackwell is None else posterior.rao_blackwell,
        },
        index=problem.names,
    )
    whole = [_whole_row(posterior, name, column) for name, column in WHOLE.items()]
    top = pd.DataFrame([row for row in whole if row is not None], columns=table.columns.insert(0, "name"))
    top = top.set_index("name")
    table["note"] = notes(posterior, effective_draws(top, table))
    table = table.sort_values("estimate", ascending=False, kind="stable")
    if not len(top):
        return table.rename_axis("quantity")
    top["note"] = ["replicates disagree" if r > APART else "" for r in top["r_hat"]]
    return pd.concat([top.astype(dict.fromkeys(top.columns[:-1], float)), table]).rename_axis("quantity")


WHOLE = {SIZE: "size", LOG_POSTERIOR: "log_posterior"}


def _whole_row(posterior: "Posterior", name: str, column: str) -> dict[str, Any] | None:
    """Model size or log posterior, from the thinned record."""
    if posterior.trace is None or "weight" in posterior.trace or posterior.condition is not None:
        return None
    mean, ess, r_hat = record_statistics(posterior.trace, column)
    by_replicate = posterior.trace.groupby("replicate")[column].mean()
    spread = float(posterior.trace[column].std())
    return {
        "name": name,
        "estimate": posterior.mean_size if column == "size" else mean,
        "mcse": posterior.mean_size_mcse
        if column == "size"
        else spread / np.sqrt(ess)
        if ess > 0
        else np.nan,
        "ess": ess,
        "r_hat": r_hat,
        "lowest": by_replicate.min(),
        "highest": by_replicate.max(),
    }


def effective_draws(top: pd.DataFrame, table: pd.DataFrame) -> float:
    """About how many independent draws the run is worth; NaN if nothing moved."""
    ess = table["ess"].to_numpy()
    ess = ess[np.isfinite(ess)]
    values = [*top["ess"].tolist(), float(np.median(ess)) if len(ess) else np.nan]
    known = [v for v in values if np.isfinite(v)]
    return min(known) if known else np.nan


def never_in(posterior: "Posterior") -> np.ndarray:
    """Variables that no draw had, (p,) bool."""
    seen = posterior.pip if posterior.frequencies is None else posterior.frequencies
    return np.zeros(len(seen), bool) if posterior.models.exact else (seen == 0) & (posterior.mcse != 0)


def always_in(posterior: "Posterior") -> np.ndarray:
    """Variables that every draw had, (p,) bool."""
    seen = posterior.pip if posterior.frequencies is None else posterior.frequencies
    return np.zeros(len(seen), bool) if posterior.models.exact else (seen == 1) & (posterior.mcse != 0)


def notes(posterior: "Posterior", draws: float) -> list[str]:
    """What is to be said of each variable."""
    out = np.full(posterior.problem.p, "", object)
    r_hat = r_hat_of_means(posterior.replicate_pips)
    if r_hat is not None:
        out[np.nan_to_num(r_hat, nan=1.0) > APART] = "replicates disagree"
    bound = f"{3 / draws:.2g}" if np.isfinite(draws) else "an unknown number"
    out[never_in(posterior)] = f"never visited; below {bound}"
    out[always_in(posterior)] = f"never left; 1 less at most {bound}"
    return out.tolist()


def disagreement(posterior: "Posterior") -> str:
    """A warning with the number and the remedy where replicates differ by more than sampling explains; else ""."""
    r_hat = r_hat_of_means(posterior.replicate_pips)
    if r_hat is None or posterior.models.exact or posterior.reweighting_ess is not None:
        return ""
    apart = np.flatnonzero(np.nan_to_num(r_hat, nan=1.0) > APART)
    if not len(apart):
        return ""
    pips = posterior.replicate_pips
    assert pips is not None
    tempers = "ParallelTempering" in posterior.sampler
    remedy = (
        "use more draws"
        if tempers
        else "use more draws, or ParallelTempering(), which crosses between such groups"
    )
    j = int(np.argmax(np.ptp(pips, axis=0)))
    return (
        f"replicates disagree on {count(len(apart), 'variable')}, most on {posterior.problem.names[j]!r}: inclusion "
        f"probabilities from {pips[:, j].min():.2f} to {pips[:, j].max():.2f}. They are in different groups of good "
        f"models: {remedy}"
    )


def lost_arithmetic(posterior: "Posterior") -> list[str]:
    """Where rounding got the better of it: factorisations that broke down, residuals of zero."""
    found: list[str] = []
    broken, gaussian = posterior.troubles.get("breakdowns", 0), posterior.problem.family.name == "gaussian"
    if broken:
        why = "at very different scales: use scale='unit'" if gaussian else "or offsets too far apart"
        found.append(
            f"{count(broken, 'model')} could not be factorised to working precision and {'was' if broken == 1 else 'were'} given no mass; columns are nearly collinear {why}"
        )
    infinite = posterior.troubles.get("diverging", 0)
    if infinite and posterior.problem.evidence == "bas":
        found.append(
            f"{count(infinite, 'model')} separated the response, so that the likelihood has no maximum, and "
            f"{'was' if infinite == 1 else 'were'} given no mass: BAS's formula has no meaning there. Use evidence='auto'"
        )
    if posterior.troubles.get("perfect_fits"):
        found.append(
            "some models fit y perfectly to rounding; their probabilities relative to one another rest on that rounding. "
            "Is y a function of the columns? Otherwise give noise=InverseGamma(a, b)"
        )
    return found


def rough(draws: float) -> float:
    """A number of effective draws as people read it: it is an estimate, so that three significant digits are enough.

    >>> [f"{rough(draws):,.0f}" for draws in (190_131.9, 84.4, 1_234_567.0)]
    ['190,000', '84', '1,230,000']
    """
    return float(f"{draws:.3g}")


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
