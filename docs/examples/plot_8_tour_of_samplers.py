"""
A student's tour of the paper's samplers
========================================

Griffin, Łatuszyński and Steel (arXiv 1412.6760) let a sampler learn, for each variable on its own, how often to propose it. This
page goes through the samplers of that paper one by one, on the Tecator data that the paper uses: 172 samples of meat, of which we
want to know the fat, and 100 wavelengths of a spectrum, each nearly the same as its neighbours.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import whichvars as wv

warnings.simplefilter("ignore", wv.ConvergenceWarning)  # these runs are short on purpose
data = wv.datasets.load_tecator()
problem = wv.Problem(
    data.X, data.y, slab=wv.IndependentNormal(100), model_prior=wv.FixedInclusion(size=5), scale="none"
)
print(problem)
neighbours = np.corrcoef(data.X.iloc[:, 49], data.X.iloc[:, 50])[0, 1]
print(f"correlation of neighbouring columns: {neighbours:.4f}")

# %%
# A model is a set of columns, and there are 2¹⁰⁰ of them. All samplers here are Metropolis–Hastings: they propose a change of the
# current model, and accept it with a probability that makes the time spent in a model proportional to its posterior probability.
# They differ in what they propose.
#
# Add, delete, swap
# -----------------
# The simplest proposal adds a variable that is out, deletes one that is in, or swaps one for another, all chosen at random. It is
# cheap, and most proposals are poor: why add a variable that never helps?


def run(sampler, draws=60_000, **settings):
    return wv.sample(
        problem, sampler, draws=draws, warmup=20_000, replicates=3, seed=1, progress=False, **settings
    )


def mutation_rate(posterior):
    """The share of iterations in which the model changed."""
    return np.mean([learned["mutation_rate"] for learned in posterior.adaptation])


simple = run(wv.AddDeleteSwap())
print(f"the model changes in {mutation_rate(simple):.0%} of the iterations")

# %%
# A trace shows the number of variables in the current model along the run. The three replicates are independent; when they have
# converged they vary around the same level.

wv.plot_trace(simple)

# %%
# One parameter that adapts
# -------------------------
# Lamnisos, Griffin and Steel (2013) change several variables at once. How many is governed by one number ω, which is learned
# so that proposals are accepted at a given rate: if they are accepted too often, they are too timid, and ω grows.

lamnisos = run(wv.Lamnisos())
print(f"the model changes in {mutation_rate(lamnisos):.0%} of the iterations")
print(f"learned: ω = {np.mean([learned['omega'] for learned in lamnisos.adaptation]):.3f}")

# %%
# Two parameters for each variable
# --------------------------------
# Individual adaptation has, for each variable j, a probability :math:`A_j` of proposing to add it when it is out, and a probability
# :math:`D_j` of proposing to delete it when it is in. All variables are decided upon at once, each by its own coin. With the inclusion
# probabilities (PIPs) :math:`\pi_j`, a good choice is :math:`A_j/D_j = \pi_j/(1 - \pi_j)`: then variables come and go as often as they
# do in the posterior. Nobody knows the PIPs beforehand, so A and D are learned: after each proposal those that took part are raised if
# it was accepted with a probability above the target τ, and lowered otherwise, by steps that shrink as the run goes on.
#
# RAPA learns from *reverse acceptance probabilities* too: when adding j was proposed, one also knows with which probability deleting it
# would have been accepted on the way back. It is the default here (w = ½).

adaptive = run(wv.IndividualAdaptation(tau=0.45))
print(f"the model changes in {mutation_rate(adaptive):.0%} of the iterations")

# %%
# The picture shows what it learned against the odds of inclusion, on logarithmic scales. The points lie near the diagonal, as they
# should; the most probable ones are a little below it in a run as short as this. The replicates agree on the ratio A/D.

wv.plot_adaptation(adaptive)

# %%
# The replicates agree less on A and D themselves, because the data determine their ratio but not their level.

wv.plot_adaptation(adaptive, show="probabilities")

# %%
# These are A and D of the most probable variables along the run, with a line for each replicate, on logarithmic scales.

wv.plot_adaptation(adaptive, show="along_run")

# %%
# The mutation rate rises in the beginning, while A and D are being learned, and then stays the same.

wv.plot_adaptation(adaptive, show="mutation_rate")

# %%
# Proposals change several variables at once. The more they change, the less often they are accepted.

wv.plot_changes(adaptive)

# %%
# The larger the learning rate φ₀, the more variables are changed at once: ten or more with φ₀ = 10, the value with which the paper's
# figures are reproduced.

bold = run(wv.IndividualAdaptation(tau=0.35, phi0=10.0))
wv.plot_changes(bold)

# %%
# Chains that learn together
# --------------------------
# Several chains can share A and D. They learn from one another, so that none has to discover everything by itself; each still
# moves on its own.

together = run(wv.IndividualAdaptation(chains=5))
fig, axes = plt.subplots(2, 1, figsize=(6.4, 6), sharey=True, layout="constrained")
for ax, posterior, title in zip(axes, (adaptive, together), ("one chain", "five chains")):
    wv.plot_trace(posterior, ax)
    ax.text(0.98, 0.95, title, transform=ax.transAxes, ha="right", va="top", fontweight="bold")
plt.show()

# %%
# Temperature
# -----------
# Where good models are far apart, none of these proposals gets from one group to the other. Parallel tempering runs further
# chains on flattened posteriors, in which the likelihood is raised to a power below 1, the inverse temperature, and lets neighbours
# exchange their models. The picture has the ladder of inverse temperatures, and how often exchanges succeeded.

tempered = run(wv.ParallelTempering(rungs=4), draws=20_000)
wv.plot_ladder(tempered)

# %%
# Sequential Monte Carlo begins with many models drawn from the prior, and raises the inverse temperature step by step from 0 to 1. At
# each step models that fit better are copied and others dropped, and then all of them move.

sampler = wv.SequentialMonteCarlo(particles=1000)
particles = wv.sample(problem, sampler, replicates=2, seed=1, progress=False)
wv.plot_ladder(particles)

# %%
# Which is best?
# --------------
# A sampler that moves in half of the iterations is not twice as good as one that moves in a quarter: a proposal that changes
# many variables costs more, and moving back and forth between two models teaches nothing. What counts is the error for the CPU
# time spent. The truth here is a longer run of the default sampler, ``Hybrid``, which came after the paper.

truth = wv.sample(problem, draws=400_000, seed=2, progress=False)
table = wv.compare_samplers(
    problem,
    {
        "add, delete, swap": wv.AddDeleteSwap(),
        "Lamnisos": wv.Lamnisos(),
        "individual adaptation": wv.IndividualAdaptation(),
        "the same, φ₀ = 10": wv.IndividualAdaptation(phi0=10.0),
        "the same, five chains": wv.IndividualAdaptation(chains=5),
        "hybrid": wv.Hybrid(),
    },
    truth=truth,
    draws=100_000,
    progress=False,
)
wv.plot_samplers(table)

# %%
# All of them find the same answer. The inclusion probabilities of neighbouring wavelengths come in groups: any one of a group
# will do.

pips = pd.DataFrame(
    {"add, delete, swap": simple.pip, "individual adaptation": adaptive.pip, "hybrid": truth.pip}
)
fig, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for (name, values), style in zip(pips.items(), ("-", "--", ":")):
    ax.plot(values, style, label=name)
ax.set(xlabel="wavelength, from the shortest", ylabel="inclusion probability")
ax.legend(frameon=False)
plt.show()

# %%
# The page *The paper, made again* compares every table and figure of the paper with what comes out here.
