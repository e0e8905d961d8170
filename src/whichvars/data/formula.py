"""Formulas, read with formulaic: a table and a formula give columns, groups of columns, and parents of interactions.

A term of the formula is one variable, however many columns it has: the dummies of a factor, or of an interaction with a
factor, enter and leave the model together. New rows get the same columns: levels, knots, means and so on are those of the
rows that the formula was first used on.

Formulaic evaluates Python expressions. Those allowed here consist of columns, formulaic's own transformations (``C``,
``log``, ``poly``, ``bs``, …), numpy's elementwise functions (``np.sqrt``), numbers and arithmetic. No other names are
allowed, neither Python's built-in functions nor the caller's variables.
"""

import ast
import importlib
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.frames import check_finite, read_vector, suggest
from whichvars.errors import ArgumentTypeError, DataError

# allowed names of numpy besides its elementwise functions
NUMPY_TOO = ("where", "clip", "pi", "e")
QUOTED = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class FormulaColumns:
    """The conversion of a table to the columns of X, made by ``read_formula``.

    Parameters
    ----------
    formula : str
    spec : formulaic.ModelSpec
        Levels, knots and so on.
    columns : tuple of str
        Names of the columns.
    groups : dict
        The columns of each variable that is not a single column of the same name.
    always : tuple of str
        Columns in every model.
    parents : dict
        For each interaction, the terms that it contains; for `heredity`.
    """

    formula: str
    spec: Any
    columns: tuple[str, ...]
    groups: dict[str, list[str]]
    always: tuple[str, ...]
    parents: dict[str, list[str]]

    def encode(self, data: Any) -> pd.DataFrame:
        """The columns of X for new rows, shape (n, columns)."""
        frame = _read_frame(data, "data")
        lacking = sorted({str(v) for v in self.spec.required_variables} - set(map(str, frame.columns)))
        if lacking:
            raise DataError(f"data lacks columns of the formula: {', '.join(map(repr, lacking))}")
        for factor, (kind, state) in self.spec.encoder_state.items():
            _check_column(frame, factor, state["categories"] if kind.value == "categorical" else None)
        _check_complete(frame, _columns_used(self.spec.formula, frame.columns))
        return _encode(self.spec, frame, self.columns)


def read_formula(
    formula: str, data: Any, always: str | None = None
) -> tuple[FormulaColumns, pd.DataFrame, np.ndarray]:
    """(encoding, X, y) of a formula such as "y ~ (a + b)**2 + C(region)" and a table.

    always: terms, joined by +, that are in every model, whether or not the formula has them too.
    """
    frame = _read_frame(data, "data")
    left, right = _parse(formula, frame, "formula")
    if left is None:
        raise DataError(f"formula: {formula!r} has no response; write it before a ~, as in 'y ~ a + b'")
    if not any(str(term) == "1" for term in right):
        raise DataError(
            f"formula: {formula!r} removes the intercept, but every model has one; leave out -1 or 0"
        )
    added: list[Any] = []
    if always is not None:
        none, added = _parse(always, frame, "always")
        if none is not None:
            raise DataError(f"always: give only terms, such as 'age + C(site)', not {always!r}")
    in_every = {str(term) for term in added} | {"1"}
    # main effects first: the coding of a factor in a term depends on the terms before it
    terms = sorted({str(t): t for t in [*right, *added]}.values(), key=lambda t: t.degree)
    if in_every.issuperset(map(str, terms)):
        raise DataError(f"formula: {formula!r} has no terms to select from")
    formulaic = _formulaic()
    y = _response(formulaic.Formula(left), frame)
    wanted = formulaic.Formula(terms, _ordering="none")
    _check_complete(frame, _columns_used(wanted, frame.columns))
    spec = _matrix(formulaic.ModelSpec.from_spec(wanted), frame).model_spec
    terms = [term for term in terms if str(term) != "1"]
    columns = _columns_of(spec, terms)
    variables = _simple([str(term) for term in terms])
    free = [str(term) not in in_every for term in terms]
    encoding = FormulaColumns(
        formula=formula,
        spec=spec,
        columns=tuple(name for names in columns for name in names),
        groups={v: names for v, names, f in zip(variables, columns, free) if f and names != [v]},
        always=tuple(name for names, f in zip(columns, free) if not f for name in names),
        parents=_parents([t for t, f in zip(terms, free) if f], [v for v, f in zip(variables, free) if f]),
    )
    return encoding, _encode(spec, frame, encoding.columns), y


def _formulaic() -> Any:
    try:
        return importlib.import_module("formulaic")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "formulas need the package formulaic: pip install 'whichvars[formula]', or pip install formulaic"
        ) from error


def _read_frame(data: Any, what: str) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        return data
    if hasattr(data, "to_pandas"):
        return data.to_pandas()
    raise ArgumentTypeError(f"{what} must be a DataFrame with named columns, not {type(data).__name__}")


# --- parsing


def _parse(formula: object, frame: pd.DataFrame, what: str) -> tuple[list[Any] | None, list[Any]]:
    """The terms before the ~ (None without a ~) and those after it, after checking all names in them."""
    if not isinstance(formula, str):
        raise ArgumentTypeError(f"{what} must be text such as 'y ~ a + b', not {formula!r}")
    formulaic = _formulaic()
    try:
        parsed = formulaic.Formula(
            formula, _context={"__formulaic_variables_available__": list(map(str, frame.columns))}
        )
    except formulaic.errors.FormulaicError as error:
        raise DataError(f"{what}: {formula!r} cannot be read: {_plain(error)}") from error
    left, right = (parsed.lhs, parsed.rhs) if hasattr(parsed, "lhs") else (None, parsed)
    if not all(isinstance(part, formulaic.SimpleFormula) for part in (left, right) if part is not None):
        raise DataError(f"{what}: {formula!r} has several parts (|); only one is allowed")
    for term in [*(left or []), *right]:
        for factor in term.factors:
            _check_names(factor, list(map(str, frame.columns)), what)
    return (None if left is None else list(left)), list(right)


def _plain(error: Exception) -> str:
    """The first line of a message."""
    return str(error).strip().split("\n")[0]


def _check_names(factor: Any, columns: list[str], what: str) -> None:
    """DataError unless a factor consists of columns and of what the docstring of this module allows."""
    kind, expression = factor.eval_method.value, factor.expr
    if kind == "literal":
        return
    if kind == "lookup":
        names: set[str] = {expression}
        tree: Any = ast.Constant(0)
    else:
        names = set(QUOTED.findall(expression))
        tree = ast.parse(QUOTED.sub("0", expression), mode="eval")
    known = importlib.import_module("formulaic.transforms").TRANSFORMS
    owners = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            _check_attribute(node, expression, what)
            owners.add(node.value)
    names |= {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n not in owners and n.id not in known
    }
    for name in sorted(names - set(columns)):
        raise DataError(f"{what}: there is no column {name!r}{suggest(name, columns)}")


def _check_attribute(node: ast.Attribute, expression: str, what: str) -> None:
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    elementwise = isinstance(getattr(np, node.attr, None), np.ufunc) or node.attr in NUMPY_TOO
    if not ((owner == "np" and elementwise) or (owner == "contr" and not node.attr.startswith("_"))):
        raise DataError(
            f"{what}: .{node.attr} in {expression!r} is not allowed, only elementwise functions of numpy such as np.sqrt; "
            "compute it as a column of the table first"
        )


def _columns_used(formula: Any, columns: Iterable[Any]) -> list[str]:
    wanted = {str(v) for v in formula.required_variables}
    return [c for c in map(str, columns) if c in wanted]


# --- terms and their names


def _simple(names: list[str]) -> list[str]:
    """Readable names, such as region[north] for C(region)[T.north]; unchanged if two of them would be the same."""
    short = [re.sub(r"\[T\.([^\]]*)\]", r"[\1]", re.sub(r"\bC\(([^(),]+)\)", r"\1", n)) for n in names]
    return short if len(set(short)) == len(short) else names


def _columns_of(spec: Any, terms: list[Any]) -> list[list[str]]:
    """The names of the columns of each term."""
    places = {str(term): indices for term, indices in spec.term_indices.items()}
    flat = [i for term in terms for i in places[str(term)]]
    name = dict(zip(flat, _simple([spec.column_names[i] for i in flat])))
    return [[name[i] for i in places[str(term)]] for term in terms]


def _parents(terms: list[Any], variables: list[str]) -> dict[str, list[str]]:
    """For every interaction, the terms whose factors are a proper subset of its factors."""
    factors = [frozenset(factor.expr for factor in term.factors) for term in terms]
    parents = {
        name: [other for other, subset in zip(variables, factors) if subset < factors_of_name]
        for name, factors_of_name in zip(variables, factors)
    }
    return {name: names for name, names in parents.items() if names}


# --- values


def _check_complete(frame: pd.DataFrame, used: list[str]) -> None:
    for name in used:
        missing = np.flatnonzero(frame[name].isna())
        if missing.size:
            more = f" (and {missing.size - 1} more rows)" if missing.size > 1 else ""
            raise DataError(
                f"column {name!r} is missing in row {missing[0]}{more}; drop such rows, or fill the values in, first"
            )


def _check_column(frame: pd.DataFrame, factor: str, levels: Iterable[Any] | None) -> None:
    """DataError if a column has a level that the data used for fitting did not have, or text in place of numbers."""
    match = re.fullmatch(r"C\(`?([^(),`]+)`?\)|([^()]+)", factor)
    name = (match[1] or match[2]) if match else ""
    if name not in frame.columns:
        return  # an expression: formulaic checks its values
    if levels is None:
        read_vector(frame[name].dropna(), None, f"column {name!r}")
        return
    known = list(levels)
    for value in frame[name].dropna().unique():
        if value not in known:
            row = int(np.flatnonzero(frame[name] == value)[0])
            raise DataError(
                f"column {name!r} has the level {value!r} in row {row}, which the data used for fitting did not have: "
                f"{', '.join(map(repr, known[:8]))}{', …' if len(known) > 8 else ''}"
            )


def _matrix(spec: Any, frame: pd.DataFrame) -> Any:
    """The model matrix of formulaic, which can use only the table and its own functions."""
    errors = importlib.import_module("formulaic.errors")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", errors.DataMismatchWarning)
            return spec.get_model_matrix(frame, context={}, na_action="ignore", output="pandas")
    except (errors.FormulaicError, errors.DataMismatchWarning) as error:
        raise DataError(f"formula: {_plain(error)}") from error


def _encode(spec: Any, frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    matrix = _matrix(spec, frame)
    places = [i for term, indices in spec.term_indices.items() if str(term) != "1" for i in indices]
    X = pd.DataFrame(matrix.to_numpy(dtype=float)[:, places], index=frame.index, columns=list(columns))
    check_finite(X.to_numpy(), list(columns), "formula:")
    return X


def _response(formula: Any, frame: pd.DataFrame) -> np.ndarray:
    _check_complete(frame, _columns_used(formula, frame.columns))
    matrix = _matrix(importlib.import_module("formulaic").ModelSpec.from_spec(formula), frame)
    if matrix.shape[1] != 1:
        raise DataError(
            f"formula: the response {str(formula)!r} gives {matrix.shape[1]} columns, {', '.join(map(repr, matrix.columns[:4]))}; "
            "it must be one column of numbers: code two classes as 0 and 1 first"
        )
    return read_vector(matrix.iloc[:, 0].to_numpy(), None, f"the response {str(formula)!r}")
