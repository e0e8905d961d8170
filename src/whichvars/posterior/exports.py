"""A posterior in forms that other people and packages read: a report, a methods paragraph, ArviZ's shapes."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from whichvars.posterior.arviz import to_arviz
from whichvars.posterior.methods import methods_paragraph

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


class Exports:
    """The methods of a ``Posterior`` that hand it to somebody else."""

    def report(self, path: Any, title: str | None = None) -> Path:
        """Write a report: one HTML file that needs nothing else, for any browser, phone or printer.

        It begins with the answer in words; then the table of variables, which can be sorted and searched, the
        plots, the best models, how far to trust it, the settings and how to cite. Needs the extra ``report``.

        Parameters
        ----------
        path : str or Path
            File to write; an older one is replaced when the new one is whole.
        title : str
            Heading; "Which variables matter?" if not given.

        Returns
        -------
        Path
            Where it was written.

        Examples
        --------
        >>> import tempfile, whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47), max_size=3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posterior.report(f"{folder}/report.html", title="Crime in 47 states").name
        'report.html'
        """
        # by name and late: reports are made of posteriors and lie above them, and need optional packages
        written: Path = importlib.import_module("whichvars.report").write_report(self, path, title)
        return written

    def methods(self) -> str:
        """A paragraph for the methods section of a paper, with references.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> print(wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).methods())
        We used Bayesian variable selection in normal linear regression, ...
        """
        return methods_paragraph(cast("Posterior", self))

    def to_arviz(self, variables: Any = None) -> Any:
        """The draws for ArviZ: an InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1.x), with the extra ``arviz``.

        ``chain`` is the replicate and ``draw`` the place in the thinned record (``trace``); where a run has
        several chains, they take turns. Groups:

        - ``posterior``: `model_size`, `log_posterior` (up to a constant) and `gamma`, which variables are in,
          (chain, draw, variable), for some of the variables: with all of 20,000 it would fill the memory;
        - ``sample_stats``: `lp`, the log posterior under the name that ArviZ expects, `iteration` and
          `chain_in_run`;
        - ``inclusion``: `probability`, its Monte Carlo error `mcse`, and `probability_by_chain`, of all variables.
          They come from all draws, not from the thinned record: prefer them to means of `gamma`;
        - ``constant_data``: `prior_inclusion` (before any `max_size`) and the number of `columns` of all variables.

        Parameters
        ----------
        variables : names, int or None
            Which variables `gamma` has: these, the so many most probable ones, or the 200 most probable ones.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.AddDeleteSwap(), draws=2000, seed=0, progress=False)
        >>> dict(posterior.to_arviz(variables=["Ed", "Po1"])["posterior"].sizes)
        {'chain': 4, 'draw': 2000, 'variable': 2}
        """
        return to_arviz(cast("Posterior", self), variables)
