"""Prior inclusion probabilities from annotations: what is known of each variable besides the data."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from whichvars.data.frames import Columns, read_columns, suggest
from whichvars.data.rows import labels_of
from whichvars.data.tables import plain_table
from whichvars.errors import DataError
from whichvars.problem.model_priors import FixedInclusion

# largest absolute log odds of a variable, so that its probability is neither 0 nor 1
LARGEST_LOG_ODDS = 30.0


class Places(NamedTuple):
    """Which of the variables of X are left in a problem."""

    kept: list[int]
    total: int


def annotated_prior(
    annotations: Any, enrichment: Any, *, size: float | None = None, intercept: float | None = None
) -> FixedInclusion:
    r"""Prior inclusion probabilities that are a logistic function of annotations.

    .. math:: \log\frac{h_j}{1 - h_j} = \alpha_0 + \sum_k a_{jk} \alpha_k

    with the annotations :math:`a_{jk}` of variable j. :math:`e^{\alpha_k}` is the factor by which the prior odds of a variable are
    multiplied if annotation k is larger by 1: the enrichment as an odds ratio. Log odds are limited to ±30.

    Parameters
    ----------
    annotations : DataFrame or array, shape (p, m)
        One row for each variable, in the order of the columns of X: numbers, such as 1 for variants in an enhancer and 0 for others.
    enrichment : mapping from annotations to numbers, Series, or array, shape (m,)
        The coefficients :math:`\alpha_k`: logarithms of odds ratios.
    size : float
        Expected number of variables, from which :math:`\alpha_0` follows.
    intercept : float
        :math:`\alpha_0` itself: the log odds of a variable whose annotations are all 0. Give either this or `size`.

    Returns
    -------
    FixedInclusion
        With one probability for each variable.

    See Also
    --------
    estimate_enrichment : estimates the coefficients from data.

    Examples
    --------
    The third and the fourth variant are in an enhancer, which makes their prior odds five times as large:

    >>> import numpy as np, pandas as pd, whichvars as wv
    >>> annotations = pd.DataFrame({"enhancer": [0, 0, 1, 1]})
    >>> prior = wv.annotated_prior(annotations, {"enhancer": np.log(5)}, size=1)
    >>> prior.inclusion(4).round(3)
    array([0.112, 0.112, 0.388, 0.388])
    """
    table = read_annotations(annotations)
    coefficients = _coefficients(enrichment, table.names)
    if (size is None) == (intercept is None):
        raise DataError("annotated_prior: give either size, the expected number of variables, or intercept")
    log_odds = table.values @ coefficients
    if intercept is None:
        assert size is not None
        if not 0 < size < len(log_odds):
            raise DataError(
                f"size must lie between 0 and the number of variables, {len(log_odds)}; it is {size!r}"
            )
        reach = float(np.abs(log_odds).max()) + LARGEST_LOG_ODDS
        intercept = float(brentq(lambda value: expit(value + log_odds).sum() - size, -reach, reach))
    elif not np.isfinite(intercept):
        raise DataError(f"intercept must be a finite number, not {intercept!r}")
    return FixedInclusion(h=inclusion(intercept + log_odds).tolist())


def inclusion(log_odds: np.ndarray) -> np.ndarray:
    """Probabilities from log odds, none of them 0 or 1."""
    return expit(np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS))


def read_annotations(
    annotations: Any, names: Sequence[str] | None = None, places: Places | None = None
) -> Columns:
    """The annotations of the variables `names` as numbers.

    Rows are found by their labels if these are names; otherwise they are the variables in their order. If there are more rows than
    variables, those at `places` are taken, because other columns of X were left out.
    """
    if isinstance(annotations, pd.Series):
        annotations = annotations.to_frame(str(annotations.name or "annotation"))
    annotations = plain_table(annotations)
    labels = labels_of(annotations)
    table = read_columns(annotations, "annotations")
    if not table.names:
        raise DataError("annotations has no columns")
    if not table.has_names:
        table = table._replace(names=[f"annotation{k}" for k in range(len(table.names))])
    if names is None:
        return table
    if labels is not None and labels.dtype.kind not in "iuf":
        row = {str(label): i for i, label in enumerate(labels)}
        lacking = [name for name in names if name not in row]
        if lacking:
            raise DataError(
                f"annotations has no row for the variable {lacking[0]!r}{suggest(lacking[0], list(row))}"
            )
        return table._replace(values=table.values[[row[name] for name in names]])
    if len(table.values) == len(names):
        return table
    if places is not None and len(table.values) == places.total:
        return table._replace(values=table.values[places.kept])
    raise DataError(
        f"annotations has {len(table.values)} rows but there are {len(names)} variables; give one row for each of them"
    )


def _coefficients(enrichment: Any, names: list[str]) -> np.ndarray:
    if isinstance(enrichment, pd.Series):
        enrichment = enrichment.to_dict()
    if isinstance(enrichment, Mapping):
        given = {str(name): value for name, value in enrichment.items()}
        for name in names:
            if name not in given:
                raise DataError(
                    f"enrichment has no coefficient of the annotation {name!r}; 0 means that it does not matter"
                )
        for name in given:
            if name not in names:
                raise DataError(f"enrichment: there is no annotation {name!r}{suggest(name, names)}")
        enrichment = [given[name] for name in names]
    values = np.atleast_1d(np.asarray(enrichment, dtype=float))
    if values.shape != (len(names),):
        raise DataError(
            f"enrichment has {values.size} coefficients but there are {len(names)} annotations; give one for each"
        )
    if not np.isfinite(values).all():
        raise DataError("enrichment must consist of finite numbers")
    return values
