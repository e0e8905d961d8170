"""A connection to a Dask cluster: its workers, the data that each is sent once, and tasks that are given again when a worker is lost.

What the tasks are is decided elsewhere: ``cluster.py`` advances replicates, ``many_cluster.py`` fits responses.
"""

import logging
import pickle
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, Self

from whichvars.errors import ClusterError
from whichvars.sampling.workers import differences, forget, software

# seconds to wait for a scheduler, and for its first worker
PATIENCE = 10.0
# seconds after which a cluster without any workers is given up
WITHOUT_WORKERS = 60.0
# seconds between two updates of the list of workers
UPDATE_SECONDS = 5.0
# attempts at one task, if a worker or the data are lost each time
TRIES = 20


class Connection:
    """The client's side of a run.

    Parameters
    ----------
    cluster : str or distributed.Client
        The address of a scheduler, or a client.
    worker_state : object
        What every worker is sent once. Its method ``open`` is called there before the first task.
    """

    def __init__(self, cluster: Any, worker_state: Any) -> None:
        self.cluster, self.worker_state = cluster, worker_state
        self.token = uuid.uuid4().hex
        self.lock, self.sending = threading.Lock(), threading.Lock()
        self.given_up = False
        self.stack = ExitStack()
        self.threads: dict[str, int] = {}  # of each worker
        self.updated = 0.0
        self.without_workers_since: float | None = None
        self.with_data: set[str] = set()  # workers that were sent the data
        self.busy: Counter[str] = Counter()
        self.pending: set[Any] = set()

    # --- opening and closing

    def __enter__(self) -> Self:
        import dask

        cluster = self.cluster
        with self.stack:  # closes whatever was opened if there is an error
            if isinstance(cluster, str):
                self.stack.enter_context(_quiet())
                self.client = self.stack.enter_context(_connect(cluster))
            else:
                self.client = cluster
            if self.client.status != "running":
                raise ClusterError(
                    f"the client is {self.client.status}, not running; connect a new one to the scheduler"
                )
            self.address = self.client.scheduler.address
            # tasks contain the states, so that the scheduler can give them to another worker
            limit = {"distributed.admin.large-graph-warning-threshold": "1 TB"}
            self.stack.enter_context(dask.config.set(limit))
            self._wait_for_workers(PATIENCE)
            self.update_workers()
            self._check_software()
            self.stack.callback(self._forget_run)
            self._send_data()
            self.pool = self.stack.enter_context(ThreadPoolExecutor(max(2, 2 * sum(self.threads.values()))))
            self.stack.callback(self.give_up)
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _check_software(self) -> None:
        """Raise an error unless every worker has the same software.

        The check itself works without whichvars on the worker, but it needs the same version of Python.
        """
        ours = software()
        versions = self.client.get_versions()
        python = ours["python"].rsplit(".", 1)[0]
        for name, info in [("the scheduler", versions["scheduler"]), *versions["workers"].items()]:
            theirs = ".".join(info["host"]["python"].split(".")[:3])
            if theirs.rsplit(".", 1)[0] != python:
                raise ClusterError(
                    f"{name} has Python {theirs}, but this process has {ours['python']}; use the same version everywhere"
                )
        for worker, installed in self.client.run(_installed_software).items():
            if isinstance(installed, str):
                raise ClusterError(
                    f"worker {worker} cannot import whichvars {ours['whichvars']} ({installed}); install it on every worker"
                )
            different = differences(installed, ours)
            if different:
                raise ClusterError(
                    f"worker {worker} has different software from this process: {different}. Results could differ: install "
                    "the same versions on every worker"
                )

    def _send_data(self) -> None:
        """Send the data to every worker: once from the client, then from worker to worker."""
        self.scattered = self.client.scatter(self.worker_state, hash=False)
        futures = {
            worker: self.client.submit(
                _set_up, self.token, self.scattered, workers=[worker], allow_other_workers=True, pure=False
            )
            for worker in self.threads
        }
        for worker, future in futures.items():
            try:
                self.with_data.add(self._result(future, worker))
            except ClusterError:
                raise
            except _losses():
                continue  # the worker is lost; one that replaces it is sent the data with its first task
        if not self.with_data:
            raise ClusterError(f"the data could not be sent to any worker of {self.address}")

    def _forget_run(self) -> None:
        """Make all workers that can be reached forget the run."""
        if self.client.status == "running":
            with suppress(OSError, TimeoutError, *_losses()):
                self.client.run(forget, self.token, on_error="ignore")

    def give_up(self) -> None:
        """Cancel all pending tasks, so that no thread waits for them any longer."""
        self.given_up = True
        with self.lock:
            pending = list(self.pending)
        if pending and self.client.status == "running":
            with suppress(OSError, TimeoutError, *_losses()):
                self.client.cancel(pending, force=True)

    # --- workers

    def slots(self) -> int:
        """The number of threads of all workers together."""
        if time.monotonic() - self.updated > UPDATE_SECONDS:
            self.update_workers()
        return sum(self.threads.values())

    def update_workers(self) -> None:
        """Update the list of workers. A scheduler that is too busy to answer in time does not count as lost."""
        if self.client.status != "running":
            raise self._lost()
        try:
            threads = self.client.sync(self.client.scheduler.ncores, callback_timeout=PATIENCE)
        except TimeoutError:
            return
        except Exception as error:  # a connection that is being closed may raise anything
            raise self._lost() from error
        with self.lock:
            self.threads, self.updated = dict(threads), time.monotonic()
            self.with_data = {worker for worker in self.with_data if worker in self.threads}
            if self.threads:
                self.without_workers_since = None
            elif self.without_workers_since is None:
                self.without_workers_since = time.monotonic()
        if (
            self.without_workers_since is not None
            and time.monotonic() - self.without_workers_since > WITHOUT_WORKERS
        ):
            raise ClusterError(
                f"the scheduler at {self.address} has had no workers for {WITHOUT_WORKERS:g} seconds"
            )

    def _wait_for_workers(self, seconds: float) -> None:
        try:
            self.client.wait_for_workers(1, timeout=seconds)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {self.address} still has no workers after {seconds:g} seconds; start some with: "
                f"dask worker {self.address}"
            ) from None

    def _lost(self) -> ClusterError:
        return ClusterError(f"the scheduler at {self.address} can no longer be reached")

    def reserve(self, preferred: str | None) -> str | None:
        """The worker to ask next: the preferred one, unless it is busier than others."""
        with self.lock:
            workers = sorted(
                self.threads, key=lambda w: (self.busy[w] // self.threads[w], w != preferred, self.busy[w], w)
            )
            if not workers:
                return None
            self.busy[workers[0]] += 1
            return workers[0]

    def release(self, worker: str | None) -> None:
        if worker is not None:
            with self.lock:
                self.busy[worker] -= 1

    # --- tasks

    def ask(self, function: str, request: Any, worker: str | None) -> Any:
        """What a function of whichvars returns on a worker, preferably on the one named; None if the worker or the data were lost.

        The function is called with the request, and with the data if that worker does not have them.
        """
        state = None if worker in self.with_data else self.scattered
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        try:
            future = self.client.submit(
                _call, function, pickle.dumps(request, protocol=5), state, pure=False, **where
            )
            with self.lock:
                self.pending.add(future)
            try:
                return self._result(future, worker)
            finally:
                with self.lock:
                    self.pending.discard(future)
                future.release()
        except _losses() as error:
            if (
                self.given_up
                or self.client.status != "running"
                or "scheduler" in str(getattr(error, "reason", ""))
            ):
                raise self._lost() from error
            self._send_again()
            return None

    def _send_again(self) -> None:
        """Scatter the data again if they were lost together with the worker that kept them for new workers."""
        with self.sending:
            if self.scattered.status != "finished":
                self._wait_for_workers(WITHOUT_WORKERS)
                self.scattered = self.client.scatter(self.worker_state, hash=False)

    def _result(self, future: Any, worker: str | None) -> Any:
        """The result of a task. While waiting, check regularly that there are still workers.

        A task that prefers a worker which is lost is cancelled: if all other workers were lost too, Dask would not give
        it to a new one. This may happen even after the task is done, while its result still lies with the worker.
        """
        import distributed

        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        try:
            while True:
                if done.wait(UPDATE_SECONDS):
                    with suppress(TimeoutError):
                        return future.result(timeout=UPDATE_SECONDS)
                self.update_workers()
                if worker is not None and worker not in self.threads:
                    future.cancel(force=True)
        except ImportError as error:
            raise ClusterError(f"a worker of {self.address} cannot import what it needs: {error}") from error
        except distributed.scheduler.KilledWorker as error:
            raise ClusterError(
                f"several workers of {self.address} died during the same task; do they have enough memory? {error}"
            ) from error
        except Exception as error:
            if self.client.status != "running":
                raise self._lost() from error
            raise


def _remote_functions() -> tuple[Any, Any, Any]:
    """The functions that workers call.

    Nested functions are pickled by value and not by name, and requests are sent as bytes. The scheduler, which unpickles
    every task, therefore does not need whichvars, and a worker without whichvars can report that.
    """

    def installed_software() -> Any:
        try:
            from whichvars.sampling.workers import software

            return software()
        except ImportError as error:
            return str(error)

    def set_up(token: str, state: Any) -> Any:
        from whichvars.sampling import workers

        return workers.set_up(token, state)

    def call(function: str, request: bytes, state: Any) -> Any:
        import importlib
        import pickle

        module, _, name = function.rpartition(".")
        return getattr(importlib.import_module(module), name)(pickle.loads(request), state)

    return installed_software, set_up, call


_installed_software, _set_up, _call = _remote_functions()


def _losses() -> tuple[type[BaseException], ...]:
    """The exceptions that are raised when a scheduler, a worker or data are lost."""
    import distributed

    return (CancelledError, distributed.CancelledError, distributed.comm.CommClosedError)


def _connect(address: str) -> Any:
    import distributed

    try:
        return distributed.Client(address, timeout=PATIENCE / 2, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r}: {error}; is it running, and is the address right?"
        ) from error


class _quiet:
    """Silence distributed's loggers below critical errors: what a user must know is raised or warned about."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("distributed")
        self.before = self.logger.level
        self.logger.setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self.logger.setLevel(self.before)
