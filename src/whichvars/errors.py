"""The errors and warnings of whichvars. Every message names the column or row, what is wrong and what to do."""


class WhichvarsError(Exception):
    """The base class of all errors that whichvars raises on purpose."""


class DataError(WhichvarsError, ValueError):
    """The data, a prior or a setting has a value that cannot be used."""


class ArgumentTypeError(WhichvarsError, TypeError):
    """An argument has a type that cannot be used."""


class TooLargeError(WhichvarsError, ValueError):
    """The computation would take too long or too much memory."""


class MissingPackageError(WhichvarsError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class OutputError(WhichvarsError, OSError):
    """A file could not be written."""


class ClusterError(WhichvarsError, OSError):
    """A cluster cannot be reached, cannot be used, or went away."""


class DataWarning(UserWarning):
    """The data were treated in a documented way that the user should know about."""


class ConvergenceWarning(UserWarning):
    """A result is less accurate than was asked for; the message says by how much and what to do."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; sampling goes on."""
