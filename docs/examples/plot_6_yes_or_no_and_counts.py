"""
Yes or no, and counts: from a file to a report
==============================================

These are two analyses of real data whose responses are not Gaussian. In the first one a breast mass is benign or malignant, and ten
measurements of its cell nuclei may tell which. In the second one the response is a number of visits to a doctor. Both sets of data
come with the package, with their sources and licences in ``data.note``.
"""

import tempfile
import warnings
from pathlib import Path

import pandas as pd

import whichvars as wv

warnings.simplefilter("ignore", wv.DataWarning)  # explain() repeats what they say
folder = Path(tempfile.mkdtemp())
data = wv.datasets.load_breast_cancer()
measured = [name for name in data.X if name.startswith("mean_")]
data.X[measured].assign(diagnosis=data.y).to_csv(folder / "masses.csv", index=False)

# %%
# Odds
# ----
# We read the file and keep every fourth row for the end. The response has two values, and odds are those of the second one in
# sorted order, which is malignant. Each measurement is in the model with the prior probability .3. There are 1,024 models, all of which
# are fitted.

table = pd.read_csv(folder / "masses.csv")
new, old = table.iloc[::4], table.drop(table.index[::4])
prior = wv.FixedInclusion(h=0.3)
problem = wv.Problem(old[measured], old["diagnosis"], family="logistic", model_prior=prior)
posterior = wv.sample(problem, progress=False)
print(posterior.explain())

# %%
# It is certain that the texture is in the model. Radius, perimeter and area are nearly the same measurement: at least one of them is needed, and none
# of them is certain to be in.

wv.plot_inclusion(posterior)

# %%
size = ["mean_radius", "mean_perimeter", "mean_area"]
print(f"P(any of radius, perimeter and area) = {posterior.probability_any(size):.3f}")

# %%
# Odds ratios are for one unit more of a column. The interval is averaged over models; it begins or ends at 1 if the models without the
# column have much of the probability.

columns = ["pip", "ratio_included", "lower", "upper"]
units = ["mean_texture", "mean_radius", "mean_perimeter", "mean_area"]
posterior.coefficients(scale="odds_ratio").loc[units, columns].round(3)

# %%
# Are the probabilities right?
# ----------------------------
# Every row is predicted from all others. This picture shows how well the two diagnoses are told apart.

wv.plot_roc(posterior)

# %%
# And this one shows whether masses that are malignant with a predicted probability of 30 % are malignant in 30 % of the cases.

wv.plot_calibration(posterior)

# %%
# These are the scores of the rows that were kept for the end. They are about as good as the scores from leaving rows out promised.

print("left out:", posterior.scores().round(3).to_dict())
print("new rows:", posterior.scores(new[measured], new["diagnosis"]).round(3).to_dict())

# %%
# Predictions are averaged over models. The interval is that of the probability: how far it can be known from these rows.

probability, interval = posterior.predict(new[measured].head(5), interval=0.9)
pd.DataFrame(
    {
        "malignant": probability,
        "from": interval[:, 0],
        "to": interval[:, 1],
        "diagnosis": new["diagnosis"].head(5).to_numpy(),
    }
).round(3)

# %%
# The report is one file with all of this, for a browser. On the command line, ``whichvars fit masses.csv --response diagnosis``
# does the same from the file to the report.

posterior.report(folder / "masses.html")
print(f"{(folder / 'masses.html').stat().st_size / 1e6:.1f} MB")

# %%
# Rates
# -----
# The response is the number of visits to a doctor in a year, and there are nine covariates. Poisson regression is the first thing to
# try, and the package says that it is wrong here: these counts vary far more than it allows, so that it sees effects where there
# are none.

data = wv.datasets.load_doctor_visits()
poisson = wv.sample(wv.Problem(data.X, data.y, family="poisson"), progress=False)
print(poisson.explain())

# %%
# A negative binomial distribution has a parameter for that, the dispersion r, over which everything is averaged. What people say about
# their own health no longer matters, given the chronic diseases that they have.

counts = wv.sample(wv.Problem(data.X, data.y, family="negative-binomial"), progress=False)
print(counts.dispersion().round(2).to_string())
pd.DataFrame(
    {"Poisson": poisson.inclusion_probabilities, "negative binomial": counts.inclusion_probabilities}
).round(2)

# %%
# The counts vary a little more than even this distribution allows:

print(counts.explain().splitlines()[-1])

# %%
# The rate ratios say that people with physical limitations make about a third more visits.

counts.coefficients(scale="rate_ratio")[columns].round(2).iloc[1:]

# %%
# Predicted rates agree with what was counted, in bins of rows of similar rates.

wv.plot_calibration(counts)

# %%
# A person with physical limitations and many chronic diseases is compared with a person who has neither. For each there is the rate
# with its interval, and the interval of the number of visits itself, which is far wider.

people = data.X.median().to_frame().T.loc[[0, 0]].reset_index(drop=True)
people["physical_limitation"], people["chronic_diseases"] = [1, 0], [30, 0]
rate, of_rate = counts.predict(people, interval=0.9)
_, of_number = counts.predict(people, kind="response", interval=0.9)
for who, r, (low, high), (least, most) in zip(("ill", "well"), rate, of_rate, of_number):
    print(f"{who}: {r:.1f} visits a year ({low:.1f} to {high:.1f}); in one year {least:.0f} to {most:.0f}")
