"""The page of ``whichvars watch`` and its server, which answers only browsers on this machine that know the token, and cannot change
anything."""

import json
import secrets
import shlex
import sys
import threading
import time
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichvars.errors import DataError

if TYPE_CHECKING:
    from whichvars.sampling.watching import View

# seconds between two looks at the files, and how many times the CPU time of a look there is at least until the next one
OFTEN, REST = 2.0, 10.0
LOOPBACK = "127.0.0.1"
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"


class Watched:
    """A run directory that is read again from time to time, and a list of what happened to the run meanwhile."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.place = checkpoint_of(run)
        if self.place is None:
            raise DataError(
                f"{run} contains no run that is being sampled, nor one that is done; name a directory that `whichvars fit` "
                "writes to or that was given as sample(checkpoint=...). Runs that enumerate all models have no checkpoints"
            )
        in_python = self.place == run
        self.resume = (
            f"whichvars.resume({str(run)!r})" if in_python else f"whichvars resume {shlex.quote(str(run))}"
        )
        self.events: list[tuple[float, str]] = []
        self.view: View | None = None
        self._watcher: Any = None
        self._due = 0.0
        self._stamp = 0  # of the results, once there are any
        self._content = ""
        self._turn = threading.Lock()

    def title(self) -> str | None:
        """The title that was given to ``whichvars fit``."""
        given = self._setting("title")
        return str(given) if given else None

    def _setting(self, name: str) -> Any:
        """What was given to ``whichvars fit``, if it is there."""
        from whichvars.cli.runs import SETTINGS, UNFINISHED

        for file in (UNFINISHED, SETTINGS):
            try:
                given = json.loads((self.run / file).read_text(encoding="utf-8")).get(name)
            except (OSError, ValueError, AttributeError):  # not there, or half-written
                continue
            if given:
                return given
        return None

    def content(self) -> str:
        """The part of the page that changes, as HTML."""
        from whichvars.report.watching import content

        with self._turn:
            if time.monotonic() >= self._due:
                began = time.thread_time()
                view = self._look()
                self._note(view)
                self.view = view
                self._content = content(view, self.events, self.resume)
                self._due = time.monotonic() + max(OFTEN, REST * (time.thread_time() - began))
            return self._content

    def report(self) -> str | None:
        """The whole report of the draws so far, or that of the results; None if there are neither."""
        from whichvars.cli.runs import REPORT
        from whichvars.plots.questions import one_blas_thread
        from whichvars.report import render
        from whichvars.sampling.watching import DONE

        self.content()
        with self._turn, one_blas_thread():
            if is_done(self.run) and (self.run / REPORT).exists():
                return (self.run / REPORT).read_text(encoding="utf-8")
            posterior = None if self.view is None else self.view.posterior
            if self.view is None or posterior is None:
                return None
            name = self.title() or self.run.name
            heading = name if self.view.state == DONE else f"{name}: the draws so far"
            return render(posterior, heading, **(self._setting("sets") or {}))

    def _look(self) -> "View":
        from whichvars.sampling.watching import STOPPED, View, Watcher

        place = checkpoint_of(self.run)
        if place is None:
            return View(STOPPED, damaged=(f"{self.run} is not there any more.",))
        if is_done(self.run):
            return self._finished()
        if self._watcher is None or self._watcher.directory != place:
            self._watcher = Watcher(place)
        return replace(self._watcher.look(), part=part_of(self.run, place))

    def _finished(self) -> "View":
        """A run of ``whichvars fit`` that has written its results."""
        from whichvars.cli.runs import SETTINGS, read_run
        from whichvars.posterior.posterior import Posterior
        from whichvars.sampling.watching import DONE, View

        try:
            stamp = (self.run / SETTINGS).stat().st_mtime_ns
            if self.view is not None and self.view.state == DONE and stamp == self._stamp:
                return self.view
            self._stamp = stamp
            saved = read_run(self.run)
        except (DataError, OSError) as error:
            return View(DONE, fraction=1.0, damaged=(str(error),))
        posterior = saved.posterior if isinstance(saved.posterior, Posterior) else None
        pips = None if posterior is None else posterior.replicate_pips
        replicates = 0 if pips is None else len(pips)
        done = 0 if posterior is None else posterior.iterations
        return View(DONE, None, None, done, None, 1.0, None, replicates, replicates, None, posterior)

    def _note(self, view: "View") -> None:
        """Remember what has changed since the last look."""
        from whichvars.sampling.watching import DONE, STOPPED

        before, now = self.view, time.time()
        told = before is not None and (before.state, before.session, before.part)
        if told == (view.state, view.session, view.part):
            return
        # the next of several runs, of the same process or not
        if before is not None and before.part != view.part:
            before = None
        subject = view.part or "The run"
        alive = view.session is not None and view.session.alive
        another = before is not None and before.session is not None and view.session != before.session
        process = f" by process {view.session.process}" if alive and view.session is not None else ""
        if view.state == DONE:
            self.events.append((now, "The run is done."))
        elif view.state == STOPPED:
            self.events.append((now, "The run is not running: it was killed or interrupted."))
        elif before is None:
            self.events.append(
                (now, f"{subject} is being sampled{process}." if alive else f"{subject} is about to begin.")
            )
        elif alive and (before.state == STOPPED or another):
            self.events.append((now, f"The run was resumed, and is continued{process}."))
        elif alive and before.session is None:
            self.events.append((now, f"{subject} is being sampled{process}."))


def checkpoint_of(run: Path) -> Path | None:
    """The directory of the checkpoint of a run, or of the part that is being sampled if a run has several; None if there is no run."""
    from whichvars.cli.runs import CHECKPOINT, IMPUTATIONS, SETTINGS, UNFINISHED
    from whichvars.sampling.checkpoint import RUN

    if (run / RUN).exists():
        return run
    if not (run / UNFINISHED).exists() and not (run / SETTINGS).exists():
        return None
    place = run / CHECKPOINT
    return place / f"imputation-{_finished_parts(place) + 1}" if (place / IMPUTATIONS).exists() else place


def part_of(run: Path, place: Path) -> str:
    """Which part of a run is sampled; empty if it has no parts."""
    number = place.name.removeprefix("imputation-")
    if place == run or number == place.name:
        return ""
    return f"Imputation {number} of {len(list(place.parent.glob('problem-*.npz')))}"


def _finished_parts(place: Path) -> int:
    return len(list(place.glob("posterior-*.npz")))


def is_done(run: Path) -> bool:
    """Whether ``whichvars fit`` has written its results, and is not making new ones."""
    from whichvars.cli.runs import SETTINGS, UNFINISHED

    return (run / SETTINGS).exists() and not (run / UNFINISHED).exists()


# --- the server


class Server(ThreadingHTTPServer):
    """Serves one run to browsers on this machine that know the token."""

    daemon_threads = True

    def __init__(self, watched: Watched, port: int) -> None:
        self.watched, self.token = watched, secrets.token_urlsafe(16)
        super().__init__((LOOPBACK, port), Handler)
        self.address = f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing if a browser closes the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers GET only."""

    server: Server
    server_version, sys_version = "whichvars", ""

    def do_GET(self) -> None:
        from whichvars.report.watching import watch_page

        token, _, name = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        watched = self.server.watched
        makers = {
            "": lambda: watch_page(watched.title() or f"Watching {watched.run.name}"),
            "now": watched.content,
            "report": watched.report,
        }
        text = makers[name]() if name in makers else None
        if text is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = text.encode("utf-8", "replace")
        self.send_response(HTTPStatus.OK)
        for header, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", POLICY),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        ):
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Do nothing, because requests would fill the terminal."""


def serve(watched: Watched, port: int = 0) -> Server:
    """A server that has its port and waits for ``serve_forever``."""
    try:
        return Server(watched, port)
    except OSError as error:
        raise DataError(
            f"port {port} cannot be used: {error.strerror}; leave out --port, or name another one"
        ) from error
