"""One algorithm, one file. See docs/dev/new_sampler.md for what a sampler provides."""

# The file of each sampler and its class. The command line calls it by the name of the file, with hyphens.
SAMPLERS = {
    "add_delete_swap": "AddDeleteSwap",
    "lamnisos": "Lamnisos",
    "individual": "IndividualAdaptation",
    "asi": "ASI",
    "parni": "PARNI",
    "tempered_gibbs": "TemperedGibbs",
    "subset_gibbs": "SubsetGibbs",
    "hybrid": "Hybrid",
    "tempering": "ParallelTempering",
    "smc": "SequentialMonteCarlo",
}
