"""
How much the prior decides
==========================

Would another prior have given another answer? The models that were found are given new weights under other priors, without another run.
"""

import matplotlib.pyplot as plt

import whichvars as wv

data = wv.datasets.load_uscrime()
posterior = wv.sample(wv.Problem(data.X, data.y))  # the default priors
table = posterior.sensitivity(
    g=[1 / 4, 1, 4, 16], prior_size=[1, 2, 5, 10], variables=["Ineq", "Ed", "Po1", "Time"]
)
table.drop(columns=["mcse", "ess", "enough"]).round(2)

# %%
# ``Ineq`` is in the model under every prior; the probability of ``Time`` depends on the prior.

fig, axes = plt.subplots(2, 2, figsize=(6.4, 5), sharex=True, sharey=True, layout="constrained")
for ax, name in zip(axes.flat, ["Ineq", "Ed", "Po1", "Time"]):
    for g, part in table[name].groupby(level="g"):
        ax.plot(part.index.get_level_values("prior_size"), part, "o-", label=f"g = {g:g}")
    ax.set(title=name, xscale="log", ylim=(-0.02, 1.02))
    ax.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    ax.minorticks_off()
fig.supxlabel("number of variables that the prior expects")
fig.supylabel("inclusion probability")
axes[1, 1].legend(frameon=False)
plt.show()
