"""``whichvars watch``: a page about a run that is being sampled, for a browser on this machine."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from whichvars.cli.show import say


@click.command(short_help="Watch a run in a browser while it is sampled.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page; a free one if not given.")  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def watch(run: Path, port: int, opens: bool) -> None:
    """Watch a run in a browser while another process samples it.

    RUN is the directory of `whichvars fit`, or that of sample(checkpoint=RUN). The page has the inclusion probabilities so far
    with their errors, the time left, and whether the replicates agree. It is made from the checkpoints of the run, which are
    written every half minute or so; the run itself is neither changed nor slowed down. If the run is killed and resumed, the page
    says so and goes on.

    The page is for this machine only: its address begins with 127.0.0.1 and contains a random word, without which the server
    shows nothing. Ctrl-C ends it.
    """
    from whichvars.cli.serving import Watched, serve
    from whichvars.plots.drawing import require

    require("jinja2", "a page that watches a run")
    require("matplotlib", "a page that watches a run")
    with serve(Watched(run), port) as server:
        say(f"Watching {run}; Ctrl-C ends it.")
        click.echo(server.address)
        if opens:
            click.launch(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("Stopped watching; the run is not affected.")


@contextmanager
def page_beside(run: Path, wanted: bool) -> Iterator[None]:
    """The page about a run while this process samples it, served by a process of its own, if it is wanted."""
    if not wanted:
        yield
        return
    command = [sys.executable, "-m", "whichvars", "watch", str(run)]
    # not to standard output, where results go
    server = subprocess.Popen(command, stdout=sys.stderr)
    try:
        yield
    finally:
        server.terminate()
        server.wait()
