"""The real data sets that come with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from whichvars.datasets._dataset import Dataset
from whichvars.errors import ArgumentTypeError, DataError

if TYPE_CHECKING:
    import pandas as pd

_BOSTON_COVARIATES = [
    "CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT",
]  # fmt: skip


def _read(name: str) -> pd.DataFrame:
    """Read a bundled CSV file; nothing in these files means "missing", not even a code such as NA."""
    import pandas as pd

    with files("whichvars.datasets").joinpath("data", name).open("rb") as handle:
        return pd.read_csv(handle, keep_default_na=False)


def _choice(name: str, value: object, options: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``options``, or say which ones there are."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} must be one of {options}, got {value!r} ({type(value).__name__})")
    if value not in options:
        raise DataError(f"{name} must be one of {options}, got {value!r}")
    return value


def load_tecator(rows: str = "paper", response: str = "fat") -> Dataset:
    """Near-infrared spectra of finely chopped meat, with its fat, water and protein content.

    Each row is a meat sample.  The 100 covariates are the absorbances (minus the base-10 logarithm of the
    transmittance) at 100 wavelengths between 850 and 1050 nm, measured with a Tecator Infratec Food and Feed
    Analyzer.  Neighbouring wavelengths are almost collinear, which makes this a hard example: many different
    small sets of wavelengths explain the response about equally well.

    The columns are given as measured, neither centred nor scaled.  Some samples repeat an
    earlier one, spectrum and contents alike (14 of the 172, 22 of the 215); they are kept.

    Parameters
    ----------
    rows : {"paper", "all"}
        ``"paper"`` gives the first 172 samples (129 training, 43 monitoring), those Griffin, Łatuszyński and
        Steel use; ``"all"`` adds the 43 test samples, 215 in total.
    response : {"fat", "water", "protein"}
        The content, in per cent, to be explained.

    Returns
    -------
    Dataset
        ``X`` of shape (172, 100) or (215, 100) with columns x001 … x100, ``y`` named after the response.

    Notes
    -----
    The data are in the public domain.  Their permission note asks publications to mention the instrument and
    the company (Tecator), and says: "The data can be redistributed as long as this permission note is
    attached."  The whole note is in ``data/LICENCES.md``.

    References
    ----------
    Griffin, J. E., Łatuszyński, K. and Steel, M. F. J. (2014). Individual adaptation: an adaptive MCMC scheme
    for variable selection problems. arXiv:1412.6760.

    Examples
    --------
    >>> from whichvars.datasets import load_tecator
    >>> data = load_tecator()
    >>> data.X.shape, data.y.name
    ((172, 100), 'fat')
    >>> float(data.X["x001"].iloc[0]), float(data.y.iloc[0])
    (2.61776, 22.5)
    >>> load_tecator(rows="all", response="protein").y.shape
    (215,)
    """
    rows = _choice("rows", rows, ("paper", "all"))
    response = _choice("response", response, ("fat", "water", "protein"))
    frame = _read("tecator215.csv")
    if rows == "paper":
        frame = frame.iloc[:172]
    X = frame.loc[:, "x001":"x100"].astype(float).copy()  # one block of memory, not 100
    note = (
        f"Tecator: {response} content (per cent) of meat samples and their absorbance spectra, recorded on a "
        f"Tecator Infratec Food and Feed Analyzer. n = {len(X)}, p = {X.shape[1]}, columns as measured. "
        "Source: caret's tecator. Licence: public domain; the permission note asks publications to mention "
        'the instrument and the company (Tecator). "The data can be redistributed as long as this permission '
        'note is attached."'
    )
    return Dataset(X, frame[response].astype(float), note)


def load_boston(design: str = "paper104") -> Dataset:
    """House values in 506 census tracts of Boston, with squares and interactions.

    The response is log(CMEDV), the logarithm of the corrected median value of owner-occupied homes (in 1000
    dollars).  This data set is here because the paper's table of models is: with it a sampler can be checked
    against published posterior model probabilities.  **The covariate B is built on race**: it is
    1000 (Bk − 0.63)², where Bk is the proportion of Black residents of a town.  Do not read its coefficient
    as a finding about people, and choose other data for teaching or applied work.

    Parameters
    ----------
    design : {"paper104", "raw"}
        ``"paper104"`` builds the 104 columns of Griffin, Łatuszyński and Steel (see Notes); ``"raw"`` gives
        the 13 covariates as recorded.

    Returns
    -------
    Dataset
        ``X`` of shape (506, 104) or (506, 13), ``y`` named ``log_CMEDV``.  The paper numbers the columns from
        1, so its column k is ``X.iloc[:, k - 1]``.

    Notes
    -----
    With z_j the j-th covariate, standardised to mean 0 and sample standard deviation 1 (divisor n − 1), the
    columns of ``"paper104"`` are

    * 1 to 13: z_1 (CRIM), …, z_13 (LSTAT);
    * 14 to 104: the products z_i z_j for j ≤ i, row by row of the lower triangle: 14 is CRIM^2, 15 is
      ZN*CRIM, 16 is ZN^2, 17 is INDUS*CRIM, …, 104 is LSTAT^2.

    Every product is centred but **not** rescaled; this is what reproduces the paper's table, so fit it
    without further scaling.  Column 61 is TAX*INDUS and column 86 is B*AGE (two labels in the paper's
    appendix are slips, its numbers are right).  CHAS is a 0/1 variable, so CHAS^2 (column 23) is perfectly
    correlated with CHAS (column 4).

    References
    ----------
    Harrison, D. and Rubinfeld, D. L. (1978). Hedonic housing prices and the demand for clean air. Journal of
    Environmental Economics and Management 5, 81–102.

    Gilley, O. W. and Pace, R. K. (1996). On the Harrison and Rubinfeld data. Journal of Environmental
    Economics and Management 31, 403–405.

    Griffin, J. E., Łatuszyński, K. and Steel, M. F. J. (2014). Individual adaptation: an adaptive MCMC scheme
    for variable selection problems. arXiv:1412.6760.

    Examples
    --------
    >>> from whichvars.datasets import load_boston
    >>> data = load_boston()
    >>> data.X.shape, data.y.name
    ((506, 104), 'log_CMEDV')
    >>> data.X.columns[61 - 1], data.X.columns[86 - 1]
    ('TAX*INDUS', 'B*AGE')
    >>> load_boston(design="raw").X.shape
    (506, 13)
    """
    import pandas as pd

    design = _choice("design", design, ("paper104", "raw"))
    frame = _read("boston_c.csv")
    raw = frame[_BOSTON_COVARIATES].astype(float)
    y = pd.Series(np.log(frame["CMEDV"].to_numpy(float)), index=frame.index, name="log_CMEDV")
    if design == "raw":
        X = raw
        what = "covariates as recorded"
    else:
        Z = (raw - raw.mean()) / raw.std(ddof=1)
        # The names file holds the paper's numbering; each column is computed from its own name.
        columns = {name: _boston_column(Z, name) for name in _read("boston104_names.csv")["name"]}
        X = pd.DataFrame(columns)
        what = "covariates standardised, then their squares and interactions, centred and not rescaled"
    note = (
        f"Boston house values, response log(CMEDV). n = {len(X)}, p = {X.shape[1]}: {what}. Source: boston.c "
        "of spData (Harrison and Rubinfeld 1978, corrected by Gilley and Pace 1996). Licence: CC0. The "
        "covariate B is built on race; the data set is here because the paper's table of models is "
        "computed on it."
    )
    return Dataset(X, y, note)


def _boston_column(Z: pd.DataFrame, name: str) -> pd.Series:
    """The column of the 104-column design called ``name``: "A", "A^2" or "A*B"."""
    if name.endswith("^2"):
        product = Z[name[:-2]] ** 2
    elif "*" in name:
        first, second = name.split("*")
        product = Z[first] * Z[second]
    else:
        product = Z[name]
    return product - product.mean()


def load_growth() -> Dataset:
    """Economic growth of 72 countries, 1960–1992, with 41 possible determinants.

    The data of Fernández, Ley and Steel (2001), a standard example of Bayesian model averaging: with 41
    regressors there are about 2·10¹² models.

    Returns
    -------
    Dataset
        ``X`` of shape (72, 41) with two-letter country codes as index, ``y`` named ``growth``, the average
        yearly growth of GDP per head (0.01 is one per cent).  The columns are as recorded, neither centred
        nor scaled.

    References
    ----------
    Fernández, C., Ley, E. and Steel, M. F. J. (2001). Model uncertainty in cross-country growth regressions.
    Journal of Applied Econometrics 16, 563–576.

    Examples
    --------
    >>> from whichvars.datasets import load_growth
    >>> data = load_growth()
    >>> data.X.shape, data.X.index.name
    ((72, 41), 'country')
    >>> float(data.X.loc["DZ", "GDP60"]), float(data.y["DZ"])
    (7.439, 0.01369)
    """
    frame = _read("datafls.csv").set_index("country")
    X = frame.drop(columns="y").astype(float)
    note = (
        f"Growth of GDP per head of countries, 1960–1992 (Fernández, Ley and Steel 2001). n = {len(X)}, "
        f"p = {X.shape[1]}, columns as recorded. Source: datafls of the R package BMS. Licence: "
        "BSD-3-Clause, copyright Martin Feldkircher and Stefan Zeugner."
    )
    return Dataset(X, frame["y"].astype(float).rename("growth"), note)


def load_uscrime(log: bool = True) -> Dataset:
    """Crime rates of 47 states of the USA in 1960, with 15 covariates.

    Small enough to compute the posterior exactly over all 2¹⁵ = 32,768 models, so samplers can be
    checked on it.

    Parameters
    ----------
    log : bool
        If true, as is usual in the literature, the response and all covariates but So (1 for a southern
        state, else 0) are replaced by their natural logarithms.  If false, everything is as recorded.

    Returns
    -------
    Dataset
        ``X`` of shape (47, 15) with columns M, So, Ed, Po1, Po2, LF, M.F, Pop, NW, U1, U2, GDP, Ineq, Prob
        and Time; ``y`` named ``log_crime``, or ``crime`` without logarithms.

    References
    ----------
    Ehrlich, I. (1973). Participation in illegitimate activities: a theoretical and empirical investigation.
    Journal of Political Economy 81, 521–565.

    Venables, W. N. and Ripley, B. D. (2002). Modern Applied Statistics with S. Fourth edition. Springer.

    Examples
    --------
    >>> from whichvars.datasets import load_uscrime
    >>> data = load_uscrime()
    >>> list(data.X.columns[:5])
    ['M', 'So', 'Ed', 'Po1', 'Po2']
    >>> round(float(data.y.iloc[0]), 4), float(load_uscrime(log=False).y.iloc[0])
    (6.6733, 791.0)
    """
    if not isinstance(log, bool | np.bool_):
        raise ArgumentTypeError(f"log must be True or False, got {log!r} ({type(log).__name__})")
    frame = _read("uscrime.csv").astype(float)
    if log:
        logged = frame.columns != "So"
        frame.loc[:, logged] = np.log(frame.loc[:, logged])
    X = frame.drop(columns="y")
    how = "response and all covariates but So logged" if log else "as recorded"
    note = (
        f"Crime rates of states of the USA in 1960 (Ehrlich 1973). n = {len(X)}, p = {X.shape[1]}, {how}. "
        "Source: the figures in UScrime of the R package MASS (Venables and Ripley 2002). Licence: the "
        "figures are facts; MASS itself is under the GPL and none of its code or text is used here."
    )
    return Dataset(X, frame["y"].rename("log_crime" if log else "crime"), note)


def load_breast_cancer() -> Dataset:
    """Cell nuclei of 569 breast masses, benign or malignant, with 30 measurements of each mass.

    A response of two values, for logistic regression. Radius, perimeter and area of the nuclei are nearly the same measurement, so that
    many variables can stand in for one another.

    Returns
    -------
    Dataset
        ``X`` of shape (569, 30), columns as recorded; ``y`` named ``diagnosis`` with the values ``"benign"`` and ``"malignant"``.

    Notes
    -----
    The file is that of scikit-learn, which is installed with this package.

    References
    ----------
    Street, W. N., Wolberg, W. H. and Mangasarian, O. L. (1993). Nuclear feature extraction for breast tumor diagnosis. IS&T/SPIE
    International Symposium on Electronic Imaging 1905, 861–870.

    Examples
    --------
    >>> from whichvars.datasets import load_breast_cancer
    >>> data = load_breast_cancer()
    >>> data.X.shape, data.y.value_counts().to_dict()
    ((569, 30), {'benign': 357, 'malignant': 212})
    """
    from sklearn.datasets import load_breast_cancer as load

    bunch = load(as_frame=True)
    X = bunch.data.astype(float).rename(columns=lambda name: name.replace(" ", "_"))
    y = bunch.target.map(dict(enumerate(map(str, bunch.target_names)))).rename("diagnosis")
    note = (
        f"Diagnosis of breast masses by measurements of their cell nuclei (Street, Wolberg and Mangasarian 1993). n = {len(X)}, "
        f"p = {X.shape[1]}, columns as recorded. Source: the UCI Machine Learning Repository, Breast Cancer Wisconsin (Diagnostic), "
        "as scikit-learn has it. Licence: CC BY 4.0."
    )
    return Dataset(X, y, note)


def load_doctor_visits() -> Dataset:
    """Visits to a doctor in a year, with nine covariates on insurance and health: every tenth row of the RAND experiment.

    Counts that vary far more than their mean: their variance is seven times their mean. With Poisson regression nearly every
    variable seems to matter; negative binomial regression is the right model for them.

    Returns
    -------
    Dataset
        ``X`` of shape (2019, 9), columns as recorded; ``y`` named ``visits``, whole numbers.

    Notes
    -----
    The covariates are ``log_coinsurance``, the logarithm of one plus the share of costs that the insured pay, in per cent;
    ``individual_deductible``, 1 if the plan has an individual deductible; ``log_incentive``, the logarithm of the payment for taking
    part; ``log_max_expenditure``, that of the largest expenditure a year; ``physical_limitation``, 0 or 1; ``chronic_diseases``, an
    index of their number; and the health as people rate it themselves: ``health_good``, ``health_fair`` and ``health_poor``, where
    none of them means excellent. A person may have several rows, one for each year.

    References
    ----------
    Cameron, A. C. and Trivedi, P. K. (2005). Microeconometrics: Methods and Applications. Cambridge University Press.

    Examples
    --------
    >>> from whichvars.datasets import load_doctor_visits
    >>> data = load_doctor_visits()
    >>> data.X.shape, round(float(data.y.mean()), 2), round(float(data.y.var()), 2)
    ((2019, 9), 2.92, 21.24)
    """
    frame = _read("doctor_visits.csv")
    X = frame.drop(columns="visits").astype(float)
    note = (
        f"Visits to a doctor in a year, RAND Health Insurance Experiment, every tenth row. n = {len(X)}, p = {X.shape[1]}, columns as "
        "recorded. Source: randhie of statsmodels (Cameron and Trivedi 2005). Licence: public domain."
    )
    return Dataset(X, frame["visits"].astype(float), note)
