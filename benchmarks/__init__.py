"""How fast and how accurate: every number of docs/performance.md comes from here. Run ``python -m benchmarks --help``."""
