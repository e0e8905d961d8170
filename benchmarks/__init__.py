"""How fast and how accurate: every number of docs/performance/ comes from here. Run ``python -m benchmarks --help``."""
