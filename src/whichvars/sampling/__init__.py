"""Who advances replicates, and until when: ``sample``, ``exact``, stopping, checkpoints, threads and clusters."""
