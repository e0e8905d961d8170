"""
A scientist's analysis: from a raw file to the methods section
==============================================================

What explains how much crime there is? The file has 47 states of the USA in 1960, with a response that is skewed, a column of
words, an identifier, and cells that are missing. The data are the classic ones of Ehrlich, as they come with the package; the
words, the identifier and three missing cells were added here, because such files usually have them.
"""

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import whichvars as wv

folder = Path(tempfile.mkdtemp())
data = wv.datasets.load_uscrime(log=False)
raw = data.X.assign(So=data.X["So"].map({0: "no", 1: "yes"}), crime=data.y)
raw.insert(0, "state", [f"state {i + 1}" for i in range(len(raw))])
for row, column in ((4, "LF"), (17, "Pop"), (30, "LF")):
    raw.loc[row, column] = np.nan
raw.to_csv(folder / "crime.csv", index=False)

# %%
# Look at the file first
# ----------------------
# Three questions come before any model: which columns are words, which have missing cells, and what does the response look like?

table = pd.read_csv(folder / "crime.csv")
print(table.dtypes.value_counts().to_string())
print(table.isna().sum().loc[lambda missing: missing > 0].to_string())

# %%
fig, axes = plt.subplots(1, 2, figsize=(6.4, 2.8), layout="constrained")
axes[0].hist(table["crime"], bins=12, color="#0072b2")
axes[0].set(xlabel="crime rate", ylabel="states")
axes[1].hist(np.log(table["crime"]), bins=12, color="#0072b2")
axes[1].set(xlabel="the logarithm")
plt.show()

# %%
# Decide before you look at results
# ---------------------------------
# Crime rates are positive and skewed, and so are most columns: amounts of money, rates and shares. An effect on them is more
# plausibly a percentage than a fixed number of crimes, so we take logarithms of all numbers. ``So``, whether a state is in the
# South, is a category. ``M``, the share of young men, is known to matter and is not what we ask about, so that it is in every model.
# The three rows with a missing cell are left out; if there were more of them, we would impute (see the page on missing values).
# We expect about five variables to matter, which is the default.

columns = table.drop(columns=["state", "crime"])
numbers = columns.columns.drop("So")
columns[numbers] = np.log(columns[numbers])
response = np.log(table["crime"]).rename("log crime")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    problem = wv.Problem(columns, response, always_include=["M"], missing="drop")
print(problem)
for warning in said:
    print("Note:", warning.message)

# %%
# The answer
# ----------
# There are 14 candidates and hence 16,384 models, all of which are enumerated. ``explain`` says in words what was found and
# how far to trust it.

posterior = wv.sample(problem, progress=False)
print(posterior.explain())

# %%
wv.plot_inclusion(posterior)

# %%
# ``Po1`` and ``Po2`` are what was spent on police in two successive years, and are nearly the same column. Neither is certain, but
# that at least one of them is needed is as good as certain; the data do not say which.

print(posterior.inclusion_probabilities[["Po1", "Po2"]].round(2).to_dict())
print(f"at least one of them {posterior.probability_any(['Po1', 'Po2']):.4f}")
print(f"correlation {columns['Po1'].corr(columns['Po2']):.3f}")

# %%
wv.plot_models(posterior)

# %%
# How large are the effects?
# --------------------------
# With logarithms on both sides a coefficient is a percentage: one per cent more of the column goes with so many per cent more
# crime. The mean is averaged over all models, and counts as zero in models without the column; ``mean_included`` is averaged
# over the models with it. The interval is averaged over models too.

shown = ["pip", "mean", "mean_included", "lower", "upper"]
posterior.coefficients().loc[["Ineq", "Ed", "Prob", "Po1", "NW"], shown].round(2)

# %%
# Does the model fit?
# -------------------
# Do the residuals of the averaged model speak against normal noise or straight lines? R² is smaller when each state is predicted from
# all others, as it must be. The smaller one is what one may promise for another state.

complete = columns.notna().all(axis=1)
check = posterior.residual_check(columns[complete], response[complete])
print(f"R² {check.r_squared:.2f}")
print(f"R² {check.loo_r_squared:.2f} if each state is predicted from all others")
print(*check.remarks or ["nothing speaks against the linear model"], sep="\n")

# %%
# Would another prior say something else?
# ---------------------------------------
# A result that changes with every reasonable prior is not a result. In the picture, points that lie close together in a row do
# not depend on the prior. Here the order of the variables hardly changes, but how probable the middle ones are does, and a paper
# should say so.

compared = wv.compare_priors(
    posterior, slabs=[wv.IndependentNormal(1), wv.GPrior("n"), wv.HyperGN(), wv.ZellnerSiow()]
)
wv.plot_priors(compared)

# %%
# What goes into the paper
# ------------------------
# A paper needs a methods section with its references, a table, and a report for the supplement. They are made from the run itself, so
# that they say what was done.

print(posterior.methods())

# %%
print(posterior.to_latex())

# %%
posterior.report(folder / "report.html", title="What goes with crime in 47 states?")
print(f"{(folder / 'report.html').stat().st_size / 1e3:.0f} kB")

# %%
# The command line does the same without Python, except that the logarithms of the columns have to be in the file:
#
# .. code-block:: none
#
#    whichvars fit crime.csv --response crime --log --always M --drop state --missing drop \
#        --title "What goes with crime in 47 states?"
#
# An inclusion probability says which columns help to describe crime, given the others. It says nothing about causes: police
# expenditure goes with more crime here, and the most likely reason is that states with more crime spend more on police.
