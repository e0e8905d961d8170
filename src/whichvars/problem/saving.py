"""Saving a problem in a file: the classes that it consists of, and a check of the arrays that are read."""

import dataclasses

import numpy as np

from whichvars._kernels.evidence import BY_FIT
from whichvars._kernels.products.stored import NOT_STORED, Stored, fits_together
from whichvars._kernels.target import Design, Target
from whichvars._kernels.target import ModelPrior as KernelPrior
from whichvars._kernels.target import Slab as KernelSlab
from whichvars.data import storage
from whichvars.data.archives import Damaged
from whichvars.data.encoding import Encoding
from whichvars.data.expanding import DateParts, NaturalSpline
from whichvars.data.records import Record
from whichvars.problem import (
    correlated_prior,
    dilution,
    families,
    graph_prior,
    mixture_priors,
    model_priors,
    moment_priors,
    priors,
)
from whichvars.problem.fitting import FitData
from whichvars.problem.flat import FlatPart
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.problem import Problem

PRIORS = tuple(
    cls
    for module in (
        priors,
        mixture_priors,
        moment_priors,
        correlated_prior,
        graph_prior,
        dilution,
        model_priors,
        families,
    )
    for cls in vars(module).values()
    if isinstance(cls, type) and dataclasses.is_dataclass(cls)
)
CLASSES = (
    Problem, FlatPart, FitData, Target, Design, Stored, KernelSlab, KernelPrior, ConditionalPrior, Encoding, Record, DateParts,
    NaturalSpline,
    *dict.fromkeys(PRIORS),
)  # fmt: skip


def check_arrays(problem: Problem) -> None:
    """Refuse a problem whose arrays do not fit one another: compiled code trusts their shapes."""
    design, slab, prior = problem.target(0)
    p, P = problem.p, len(problem.columns_used)
    widths = np.diff(problem.offsets)
    held = design.stored
    gram = (P, P) if problem.engine == "gram" else (0, 0)
    columns = (P, problem.n) if problem.engine == "columns" and held.code == NOT_STORED else (0, 0)
    fits = (
        len(problem.names) == p > 0
        and problem.offsets.shape == (p + 1,)
        and (widths > 0).all()
        and (int(problem.offsets[0]), int(problem.offsets[-1])) == (0, P)
        and design.gram.shape == gram
        and design.columns.shape == columns
        and design.columns.flags.c_contiguous
        and (held.code == NOT_STORED or (problem.engine == "columns" and fits_together(held, P)))
        and all(len(v) >= P for v in (design.diagonal, design.xty, slab.ridge, slab.half_log_g))
        and all(len(v) >= p for v in (design.keys, prior.log_odds))
        and prior.log_size.shape == (p + 1,)
        and 0 <= slab.max_columns <= P
        and 1 <= prior.max_size <= p
        and slab.table.ndim == 3
        and slab.grid.ndim == 2
        and slab.grid.shape[1] == 3
        and _heredity_fits(problem, prior)
        and _family_fits(problem)
    )
    if not fits:
        raise Damaged("the arrays of its problem do not fit one another")


def _heredity_fits(problem: Problem, prior: KernelPrior) -> bool:
    """Whether what kernels are told of parents and children is what the prior says."""
    own = problem.model_prior
    if isinstance(own, dilution.Dilution):
        if own.of_columns is None or own.of_columns.inclusion.shape != (problem.p,):
            return False
        own = own.base
    if isinstance(own, graph_prior.MarkovRandomField):
        links, terms = own.kernel_terms(problem.p)[2:]
    elif isinstance(own, ConditionalPrior):
        links, terms = own.kernel_terms()[2:]
    else:
        return prior.links.shape == (0,) and prior.terms.shape == (0, 3)
    return np.array_equal(prior.links, links) and prior.terms.shape == terms.shape


def _family_fits(problem: Problem) -> bool:
    """Whether the rows that fits of models need are all there."""
    data, n = problem.fit_data, problem.n
    if isinstance(problem.family, families.Gaussian):
        return data is None
    if data is None or problem.target(0).slab.code != BY_FIT or problem.evidence not in families.EVIDENCE:
        return False
    by_row = (data.y, data.trials, data.weights, data.offset, data.score, data.information)
    return (
        all(v.shape == (n,) and v.dtype == np.float64 for v in by_row)
        and data.given.shape in ((0,), (n,))
        and data.flat.shape == (len(data.start), n)
        and data.start.ndim == 1
    )


storage.check_when_read(Problem, check_arrays)
storage.leave_out_when_read(Design, "rows")
