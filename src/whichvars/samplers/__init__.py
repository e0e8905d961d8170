"""One file an algorithm. See docs/dev/new_sampler.md for what a sampler provides."""
