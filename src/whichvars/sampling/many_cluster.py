"""The responses of ``sample_many`` on a Dask cluster: one task for a few responses, on the client and on the worker."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any, NamedTuple

from whichvars.errors import ClusterError
from whichvars.sampling.connection import TRIES, Connection
from whichvars.sampling.many_fits import Fit, Fits, Work, without_warnings
from whichvars.sampling.workers import address_of_worker, check_software, set_up, software, state_of

# responses of one task at most, so that little is lost with a worker
MOST = 16
# tasks for each thread of a worker, so that all have work until the end
TASKS = 8


class Batch(NamedTuple):
    """A request to fit some responses, which are observed in the same rows."""

    token: str  # of the run
    responses: list[int]


class Fitted(NamedTuple):
    """The reply of a worker."""

    worker: str
    fits: list[Fit] | None  # None: the worker does not have the data


class ManyState:
    """What a worker keeps of a run: the data, and what responses share."""

    def __init__(self, work: Work) -> None:
        self.work, self.client_software = work, software()
        self._prepare()

    def _prepare(self) -> None:
        self.lock, self.used = threading.Lock(), time.monotonic()
        self.fits: Fits | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"work": self.work, "client_software": self.client_software}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def open(self) -> Fits:
        with self.lock:
            self.used = time.monotonic()
            if self.fits is None:
                check_software(self.client_software)
                self.fits = Fits(self.work)
            return self.fits


def fit_batch(request: Batch, sent: ManyState | None) -> Fitted:
    """Fit some responses on this worker."""
    if sent is not None:
        set_up(request.token, sent)
    state = state_of(request.token)
    if state is None:
        return Fitted(address_of_worker(), None)
    fits: Fits = state.open()
    fits.sharing.expect(request.responses)
    with without_warnings():
        return Fitted(address_of_worker(), [fits.fit(i) for i in request.responses])


def fit_on_cluster(cluster: Any, fits: Fits, order: Sequence[int]) -> Iterator[tuple[int, Fit]]:
    """The responses as they are done, in any order."""
    if not order:
        return
    with _ManyPool(cluster, ManyState(fits.work)) as pool:
        futures = {pool.pool.submit(pool.fit, batch): batch for batch in _batches(fits, order, pool.slots())}
        try:
            for future in as_completed(list(futures)):
                yield from zip(futures.pop(future), future.result())
        finally:
            for future in futures:
                future.cancel()


class _ManyPool(Connection):
    """The client's side."""

    def fit(self, batch: Sequence[int]) -> list[Fit]:
        """Have a worker fit some responses; try again if the worker is lost."""
        for _ in range(TRIES):
            worker = self.reserve(None)
            try:
                reply: Fitted | None = self.ask(
                    "whichvars.sampling.many_cluster.fit_batch", Batch(self.token, list(batch)), worker
                )
            finally:
                self.release(worker)
            if reply is not None and reply.fits is not None:
                self.with_data.add(reply.worker)
                return reply.fits
            if reply is not None:
                self.with_data.discard(reply.worker)
            self.update_workers()
        raise ClusterError(
            f"responses could not be fitted on {self.address}: workers were lost in {TRIES} attempts"
        )


def _batches(fits: Fits, order: Sequence[int], slots: int) -> list[tuple[int, ...]]:
    """The responses divided into tasks, each of responses that share XᵀX."""
    size = min(MOST, max(1, len(order) // (TASKS * max(slots, 1))))
    batches = []
    for _, group in itertools.groupby(order, fits.sharing.group.__getitem__):
        own = tuple(group)
        batches += [own[first : first + size] for first in range(0, len(own), size)]
    return batches
