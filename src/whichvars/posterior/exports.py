"""Conversions of a posterior: a report, a paragraph for the methods section of a paper, ArviZ's data structures, and a table of what the
sampler learned."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.posterior.arviz import to_arviz
from whichvars.posterior.bibliography import bibtex
from whichvars.posterior.methods import methods_paragraph, references

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior
    from whichvars.posterior.residual_checks import ResidualCheck


class Exports:
    """The methods of a ``Posterior`` that convert it to other formats."""

    def report(
        self,
        path: Any,
        title: str | None = None,
        brief: bool = False,
        check: "ResidualCheck | None" = None,
        level: float = 0.95,
        signal: float | None = None,
    ) -> Path:
        """Write a report: a self-contained HTML file for any browser, phone or printer.

        It begins with the result in words. The table of variables, which can be sorted and searched, the plots, the best
        models, the diagnostics, the settings and the references follow. Needs the extra ``report``.

        Parameters
        ----------
        path : str or Path
            File to write; an existing file is replaced when the new one is complete.
        title : str
            Heading. The default is "Which variables matter?".
        brief : bool
            Write a summary that fits on one printed page instead: the result in words, the most probable variables, and what goes with one
            standard deviation more of each.
        check : ResidualCheck
            What ``residual_check(X, y)`` returns; the report then shows whether the model fits: residuals, and responses drawn from the model.
        level, signal
            Which credible sets it shows, as in ``credible_sets``.

        Returns
        -------
        Path
            The file that was written.

        Examples
        --------
        >>> import tempfile, whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47), max_size=3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posterior.report(f"{folder}/report.html", title="Crime in 47 states").name
        'report.html'
        """
        # imported late and by name: the layer of reports is above this one, and reports need optional packages
        report = importlib.import_module("whichvars.report")
        written: Path = report.write_report(self, path, title, brief, check, level, signal)
        return written

    def methods(self) -> str:
        """A paragraph for the methods section of a paper, with references.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> print(wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).methods())
        We used Bayesian variable selection in normal linear regression of log_crime, ...
        """
        return methods_paragraph(cast("Posterior", self))

    def bibtex(self, path: Any = None) -> str:
        """The references of ``methods`` as BibTeX entries, with one for the package itself.

        Parameters
        ----------
        path : str or Path
            File to write them to, if wanted; an existing file is replaced.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.HyperG()))
        >>> [line for line in posterior.bibtex().splitlines() if line.startswith("@")]
        ['@software{whichvars,', '@article{liang2008,', '@article{ley2009,']
        """
        text = bibtex(references(cast("Posterior", self)))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_arviz(self, variables: Any = None) -> Any:
        """The draws for ArviZ: an InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1.x), with the extra ``arviz``.

        ``chain`` is the replicate and ``draw`` the position in the thinned record (``trace``); if a replicate has several
        chains, they alternate. Groups:

        - ``posterior``: `model_size`, `log_posterior` (up to a constant) and `gamma`, which variables are in,
          (chain, draw, variable), for some of the variables only, as all of 20,000 would fill the memory;
        - ``sample_stats``: `lp`, the log posterior under the name that ArviZ expects, `iteration` and
          `chain_in_run`;
        - ``inclusion``: `probability`, its Monte Carlo error `mcse`, and `probability_by_chain`, of all variables.
          They use all draws, not only the thinned record, and are preferable to means of `gamma`;
        - ``constant_data``: `prior_inclusion` (before any `max_size`) and the number of `columns` of all variables.

        Parameters
        ----------
        variables : names, int or None
            The variables in `gamma`: their names, or the number of most probable variables. The default is the 200 most
            probable.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.AddDeleteSwap(), draws=2000, seed=0, progress=False)
        >>> dict(posterior.to_arviz(variables=["Ed", "Po1"])["posterior"].sizes)
        {'chain': 4, 'draw': 2000, 'variable': 2}
        """
        return to_arviz(cast("Posterior", self), variables)

    def adaptation_along_run(self) -> pd.DataFrame:
        r"""The adding and deleting probabilities of each variable along the run, as they were learned.

        ``IndividualAdaptation`` (IA and RAPA), ``ASI`` and ``ParallelTempering`` with the former propose to add variable j with
        probability :math:`A_j` and to delete it with probability :math:`D_j`. Both are recorded after 0, 64, 90, 128, 181, 256, …
        iterations, warm-up included, and at the end; if several chains learn together, they have the same probabilities, which are
        recorded after 0, 64, 128, 256, … iterations of each. Of more than 200 variables the most probable 200 are kept, and of more
        than 50,000 none. The record is rounded to seven digits.

        Returns
        -------
        DataFrame, one row for each replicate, iteration and variable
            `replicate`; `iteration` of each chain; `variable`; `add_probability` and `delete_probability`. ``plot_adaptation`` with
            ``show="along_run"`` draws it.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
        >>> posterior = wv.sample(problem, wv.IndividualAdaptation(), draws=5000, seed=1, progress=False)
        >>> learned = posterior.adaptation_along_run()
        >>> learned[(learned["replicate"] == 0) & (learned["variable"] == "Ineq")].iloc[[0, -1]].round(3)
             replicate  iteration variable  add_probability  delete_probability
        12           0          0     Ineq            0.100               0.200
        222          0       5500     Ineq            0.101               0.021
        """
        posterior = cast("Posterior", self)
        if not posterior.adaptation or "iterations_along_run" not in posterior.adaptation[0]:
            raise DataError(
                "this posterior has no record of adding and deleting probabilities; sample(problem, IndividualAdaptation()) makes one, for at "
                "most 50,000 variables"
            )
        parts = []
        for replicate, learned in enumerate(posterior.adaptation):
            points, kept = learned["iterations_along_run"], learned["variables_along_run"]
            part = {
                "replicate": replicate,
                "iteration": np.repeat(points, len(kept)),
                "variable": np.tile(np.array(posterior.problem.names, object)[kept], len(points)),
                "add_probability": learned["add_probability_along_run"].ravel(),
                "delete_probability": learned["delete_probability_along_run"].ravel(),
            }
            parts.append(pd.DataFrame(part))
        return pd.concat(parts, ignore_index=True)
