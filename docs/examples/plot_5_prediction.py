"""
Predictions with all their uncertainty
======================================

Of two hundred columns ten matter, and there are only a hundred rows to learn from. A hundred other rows are then predicted.
Their intervals include the uncertainty about the model, its coefficients and the noise.
"""

import matplotlib.pyplot as plt
import numpy as np

import whichvars as wv

data = wv.datasets.simulate_ar(n=200, p=200, snr=2, seed=1)
train, test = slice(0, 100), slice(100, 200)
posterior = wv.sample(wv.Problem(data.X[train], data.y[train]), draws=100_000, seed=1, progress=False)
mean, interval = posterior.predict(data.X[test], interval=0.9)
truth = data.y[test].to_numpy()
inside = (interval[:, 0] < truth) & (truth < interval[:, 1])
print(f"{100 * inside.mean():.0f} % of {len(truth)} new rows lie in their 90 % interval")

# %%
order = np.argsort(mean)
fig, ax = plt.subplots(figsize=(6.4, 3.5), layout="constrained")
error = np.abs(interval[order].T - mean[order])
ax.errorbar(
    np.arange(len(order)), mean[order], error, fmt="o", color="#0072B2", markersize=4, label="predicted, 90 %"
)
ax.plot(truth[order], "x", color="#D55E00", label="measured")
ax.set(xlabel="new row, in the order of prediction", ylabel="y")
ax.legend(frameon=False)
plt.show()

# %%
# The average over models (BMA) is compared with two single models: that of all variables with a probability of at least one half (MPM),
# and the most probable model (HPM).

for estimator in ("BMA", "MPM", "HPM"):
    off = posterior.predict(data.X[test], estimator=estimator) - truth
    score = np.sqrt((off**2).mean())
    print(f"{estimator}: root mean squared error {score:.3f}")
