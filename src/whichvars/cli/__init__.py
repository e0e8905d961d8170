"""The command line, ``whichvars`` or ``python -m whichvars``. Commands import what they need when they run, so that
``whichvars --help`` is quick.

Exit codes: 0, done and accurate; 2, the data or an option cannot be used; 3, done but not accurate enough; 130, interrupted.
"""

import atexit
import ctypes
import errno
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from whichvars import __version__
from whichvars.cli.answers import compare, predict, report
from whichvars.cli.checkup import doctor
from whichvars.cli.data import datasets
from whichvars.cli.demonstration import demo
from whichvars.cli.fitting import exact, fit, resume
from whichvars.cli.show import in_options
from whichvars.cli.watching import watch
from whichvars.errors import WhichvarsError

BAD_INPUT, INTERRUPTED = 2, 130
NEW_OBJECTS = 20_000  # between two searches for garbage; 700 is Python's own
# bytes of arrays whose memory is given back as soon as they are not needed, and of memory for smaller ones that may wait to be used again
LARGE_ARRAY, WAITING = 4 << 20, 64 << 20
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt in the C library of GNU


class Failure(click.ClickException):
    """A message instead of a traceback."""

    exit_code = BAD_INPUT


class Interrupted(click.ClickException):
    """The user interrupted a command."""

    exit_code = INTERRUPTED


# At exit, Python searches all objects for garbage, which takes half a second; frozen objects are skipped.
atexit.register(gc.freeze)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Make Python search for cyclic garbage less often.

    The imports and plots of a command create half a million objects, almost none of which are garbage; searching them
    repeatedly took a seventh of the time of a short command.
    """
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def give_back_memory() -> None:
    """Make the C library give memory of large arrays back to the system as soon as they are not needed, if it is that of GNU.

    By itself it keeps pieces of up to 32 MB for later, and clears them when they are used again. Each run after the first then had 100 MB more
    than it used.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, WAITING)
        mallopt(M_MMAP_THRESHOLD, LARGE_ARRAY)
    except (OSError, TypeError, AttributeError):  # another C library
        return


class Commands(click.Group):
    """A group whose commands end with a message, not a traceback, if the user can do something about an error."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            give_back_memory()
            with seldom_collected():
                return super().invoke(ctx)
        except WhichvarsError as error:
            raise Failure(in_options(str(error))) from error
        except KeyboardInterrupt as error:  # its message says how to continue, if that is possible
            raise Interrupted(str(error) or "interrupted; nothing was written.") from None
        except MemoryError as error:
            raise Failure(
                "there is not enough memory for this; use fewer columns, rows or replicates"
            ) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has ended; click handles this
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{where}{error.strerror or error}") from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="whichvars")
def main() -> None:
    """Which variables matter, and how sure can I be? Bayesian variable selection.

    Begin with `whichvars demo`, or with your own data: `whichvars fit data.csv --response y`.
    """


for command in (fit, resume, watch, exact, predict, report, compare, datasets, demo, doctor):
    main.add_command(command)
