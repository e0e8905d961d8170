"""Running samplers: ``sample`` and ``exact``, rules for stopping, checkpoints, threads and clusters."""
