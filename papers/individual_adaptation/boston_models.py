"""Boston: the table of the most probable models."""

import numpy as np

import whichvars as wv
from benchmarks import boston
from benchmarks.common import number
from papers.individual_adaptation import published
from papers.individual_adaptation.study import Claim, Section, Study, new_figure
from whichvars.plots.drawing import BLUE, GREY, ORANGE

TITLE = "Boston: the most probable models"
CLOSE = 0.02  # between two probabilities of a model
CLOSE_SIZE = 0.1
SEED = 900


def shares(posterior: wv.Posterior) -> np.ndarray:
    """The share of the draws of each model of the paper's table; 0 for one that was not met."""
    found = {tuple(sorted(int(j) for j in m)): float(f) for m, f in zip(posterior.models.members, posterior.models.frequency)}  # fmt: skip
    return np.array([found.get(tuple(j - 1 for j in members), 0.0) for members, _ in published.MODELS])


def judge(ours: np.ndarray, mean_size: float, tempered: np.ndarray) -> list[Claim]:
    """From the shares of the thirteen models, by our default and by the paper's sampler."""
    paper = np.array([share for _, share in published.MODELS])
    computed = np.array(published.COMPUTED)
    near = np.abs(ours - paper) <= CLOSE
    within = f"agrees if within {CLOSE:g}"
    return [
        Claim(
            "probability of the best model",
            f"{paper[0]:.3f}",
            f"{ours[0]:.3f}",
            bool(near[0]),
            f"{within}; IA-PT as in the paper, here: {tempered[0]:.3f}",
        ),
        Claim(
            "probability of the second model (the first without variable 49)",
            f"{paper[1]:.3f}; {computed[1]:.3f} by an independent sampler",
            f"{ours[1]:.3f}",
            bool(abs(ours[1] - computed[1]) <= CLOSE),
            f"{within} of the second; IA-PT as in the paper, here: {tempered[1]:.3f}",
        ),
        Claim(
            "all models of the paper's table",
            "see the table",
            f"{int(near.sum())} of {len(near)} within {CLOSE:g}, largest difference {number(float(np.abs(ours - paper).max()), 2)}",
            bool(near.all()),
            "ratios of two models' probabilities are exact here; where the paper's differ from them, that is its Monte Carlo error between modes",
        ),
        Claim(
            "mean model size",
            f"{published.NOT_GIVEN}; {published.COMPUTED_MEAN_SIZE:g} by an independent sampler",
            f"{mean_size:.2f}",
            bool(abs(mean_size - published.COMPUTED_MEAN_SIZE) <= CLOSE_SIZE),
            f"agrees if within {CLOSE_SIZE:g}",
        ),
    ]


def make(study: Study) -> Section:
    effort, problem = study.effort, study.problem("boston104")
    study.say("Boston: probabilities of models, by our default")
    default = study.sample(problem, wv.Hybrid(), draws=effort.model_draws, replicates=4, seed=SEED)
    study.say("Boston: the same by IA-PT")
    draws = max(1000, round(boston.PT_DRAWS * effort.wmse_scale))
    sampler = wv.ParallelTempering(wv.IndividualAdaptation(tau=0.35), rungs=boston.RUNGS)
    tempered = study.sample(problem, sampler, draws=draws, replicates=4, seed=SEED, rao_blackwell=False)
    ours, theirs = shares(default), shares(tempered)
    models = default.models
    scale = {
        tuple(sorted(int(j) + 1 for j in m)): value for m, value in zip(models.members, models.log_posterior)
    }
    best = scale.get(tuple(published.FIRST), np.nan)
    section = Section(TITLE)
    rows = [
        {
            "model": " ".join(map(str, members)),
            "paper": share,
            "independent sampler": computed,
            "by exact ratio to the best": round(
                float(ours[0] * np.exp(scale.get(members, np.nan) - best)), 4
            ),
            "hybrid": round(float(ours[k]), 4),
            "IA-PT": round(float(theirs[k]), 4),
        }
        for k, ((members, share), computed) in enumerate(
            zip(published.MODELS, published.COMPUTED, strict=True)
        )
    ]
    study.table(
        section,
        "boston_models",
        rows,
        f"Probabilities of models in the paper's numbering, from {default.iterations:,} iterations of our default and "
        f"{tempered.iterations:,} of IA-PT (m = {boston.RUNGS}, τ = .35).",
    )
    figure, axes = new_figure(width=6.4, height=3.6)
    place = np.arange(len(rows))
    for shift, key, colour in ((-0.25, "paper", GREY), (0, "hybrid", BLUE), (0.25, "IA-PT", ORANGE)):  # fmt: skip
        axes[0, 0].bar(place + shift, [row[key] for row in rows], 0.25, color=colour, label=key)
    axes[0, 0].set(xlabel="model, in the order of the paper's table", ylabel="probability", xticks=place)
    axes[0, 0].set_xticklabels([str(k + 1) for k in place])
    axes[0, 0].legend(fontsize=8, frameon=False)
    study.picture(section, "boston_models", figure, "The paper's probabilities of the models and ours.")
    section.claims = judge(ours, default.mean_size, theirs)
    return section
