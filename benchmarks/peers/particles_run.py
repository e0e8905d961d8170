"""Runs in an environment of its own, with `particles` and its older numpy: python particles_run.py SIZE SEED FOLDER.

Waste-free SMC on binary spaces (Schäfer & Chopin 2013; Dau & Chopin 2022). The program knows nothing of an intercept:
columns and response come centred, and ν = −1 degrees of freedom in its inverse gamma prior of scale 0 turn its exponent
(n + ν)/2 into (n − 1)/2, that of the flat prior on intercept and log σ.
"""

import csv
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

LENGTH = 50  # of each particle's chain, all of whose states are kept


def main() -> None:
    size, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    import particles
    from particles import binary_smc, distributions, smc_samplers

    warnings.simplefilter("ignore")
    settings = json.loads((folder / "settings.json").read_text())
    with (folder / "data.csv").open(newline="") as file:
        names = next(csv.reader(file))[1:]
    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1, ndmin=2)
    y, X = table[:, 0], table[:, 1:]
    np.random.seed(seed)  # noqa: NPY002 — the program draws from numpy's global stream
    begun = time.process_time()
    prior = distributions.IID(binary_smc.Bernoulli(settings["model_prior"]["h"]), X.shape[1])
    model = binary_smc.BayesianVS(data=(X, y), prior=prior, nu=-1.0, lamb=0.0, iv2=1 / settings["slab"]["g"])
    move = smc_samplers.MCMCSequenceWF(mcmc=binary_smc.BinaryMetropolis(), len_chain=LENGTH)
    tempering = smc_samplers.AdaptiveTempering(model, len_chain=LENGTH, move=move)
    sampler = particles.SMC(fk=tempering, N=max(2, size // LENGTH))
    sampler.run()
    pips = np.clip(np.asarray(sampler.W) @ np.asarray(sampler.X.theta, float), 0, 1)
    spent = time.process_time() - begun
    with (folder / "pips.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["variable", "pip"])
        writer.writerows((name, repr(float(pip))) for name, pip in zip(names, pips))
    (folder / "seconds.txt").write_text(f"{spent}\n")


if __name__ == "__main__":
    main()
