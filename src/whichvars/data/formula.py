"""Formulas, read with formulaic: a table and a formula give columns, groups of columns, and parents of interactions.

A term of the formula is one variable, however many columns it has: the dummies of a factor, or of an interaction with a
factor, enter and leave the model together. New rows get the same columns: levels, knots, means and so on are those of the
rows that the formula was first used on.

Formulaic evaluates Python expressions. Those allowed here consist of columns, formulaic's own transformations (``C``,
``log``, ``poly``, ``bs``, …), numpy's elementwise functions (``np.sqrt``), numbers and arithmetic. No other names are
allowed, neither Python's built-in functions nor the caller's variables.

``spline(age, df=4)`` is a natural cubic spline, as the argument `expand` of ``Problem`` makes it: the formula has the term ``age`` instead.
Two functions are R's: ``offset(log(n))`` on the right is a known part of the linear predictor, and ``cbind(successes,
failures)`` on the left a number of successes among some trials.
"""

import ast
import importlib
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.expanding import Expansion, read_expansions, spline
from whichvars.data.frames import check_finite, read_vector, suggest
from whichvars.data.kinds import is_text, to_floats
from whichvars.data.tables import as_pandas, is_table
from whichvars.errors import ArgumentTypeError, DataError

# allowed names of numpy besides its elementwise functions
NUMPY_TOO = ("where", "clip", "pi", "e")
QUOTED = re.compile(r"`([^`]*)`")
# how formulaic marks the place of a mistake in its messages
MARKED = re.compile(r"\u29db(?:\x1b\[[\d;]*m)*(.*?)(?:\x1b\[[\d;]*m)*\u29da", re.DOTALL)
# formulaic's words for mistakes, and plain ones
SAID = {
    "Could not find matching context marker": "this bracket has no partner",
    "Formula ended before quote context was closed": "this bracket or quotation mark is not closed",
    "Operator": "this operator has no term beside it, or is out of place",
}
RESPONSE, TERM, SPLINE = "cbind", "offset", "spline"


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
    offsets : tuple of str
        The expressions inside ``offset(…)``.
    """

    formula: str
    spec: Any
    columns: tuple[str, ...]
    groups: dict[str, list[str]]
    always: tuple[str, ...]
    parents: dict[str, list[str]]
    offsets: tuple[str, ...] = ()

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

    def offset(self, data: Any) -> np.ndarray | None:
        """The sum of the offsets of new rows, shape (n,); None if the formula has none."""
        if not self.offsets:
            return None
        frame = _read_frame(data, "data")
        parts = [_vector(inner, frame, f"{TERM}({inner})", self.formula) for inner in self.offsets]
        return np.sum(parts, axis=0)


class FormulaData(NamedTuple):
    """What a formula makes of a table."""

    encoding: FormulaColumns
    X: pd.DataFrame
    y: Any  # (n,): numbers, or labels if these were asked for
    offset: np.ndarray | None = None  # (n,)
    trials: np.ndarray | None = None  # (n,), of cbind(successes, failures); y are then the successes
    counted: tuple[str, ...] = ()  # what was written for successes and failures
    expand: tuple[Expansion, ...] = ()  # the splines


def read_formula(formula: str, data: Any, always: str | None = None, labels: bool = False) -> FormulaData:
    """The columns and the response of a formula such as "y ~ (a + b)**2 + C(region)" and a table.

    always: terms, joined by +, that are in every model, whether or not the formula has them too.
    labels: the response may be anything, such as words for classes, and is returned as it is.
    """
    frame = _read_frame(data, "data")
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            frame = frame.assign(**{str(name): frame[name].cat.remove_unused_categories()})
    left, right = _parse(formula, frame, "formula")
    if left is None:
        raise DataError(f"formula: {formula!r} has no response; write it before a ~, as in 'y ~ a + b'")
    right, offsets = _take_offsets(right, formula)
    right, expand = _take_splines(right, frame, formula)
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
    counted = _counted(left, formula)
    if counted:
        successes, failures = (_counts(inner, frame, formula) for inner in counted)
        y, trials = successes, successes + failures
    else:
        y, trials = _response(left, frame, labels), None
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
        offsets=offsets,
    )
    X = _encode(spec, frame, encoding.columns)
    return FormulaData(encoding, X, y, encoding.offset(frame), trials, counted, expand)


def _formulaic() -> Any:
    try:
        return importlib.import_module("formulaic")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "formulas need the package formulaic: pip install 'whichvars[formula]', or pip install formulaic"
        ) from error


def _read_frame(data: Any, what: str) -> pd.DataFrame:
    if not is_table(data):
        raise ArgumentTypeError(f"{what} must be a DataFrame with named columns, not {type(data).__name__}")
    frame = as_pandas(data)
    # formulaic knows no other types of words and numbers than those of numpy
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, np.dtype | pd.CategoricalDtype):
            continue
        if is_text(frame[name]):
            frame = frame.assign(**{str(name): frame[name].astype(object)})
        elif pd.api.types.is_numeric_dtype(dtype):
            frame = frame.assign(**{str(name): to_floats(frame[name])})
    return frame


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
    except (formulaic.errors.FormulaicError, SyntaxError) as error:
        raise DataError(f"{what}: {formula!r} cannot be read: {_mistake(formula, error)}") from error
    left, right = (parsed.lhs, parsed.rhs) if hasattr(parsed, "lhs") else (None, parsed)
    if not all(isinstance(part, formulaic.SimpleFormula) for part in (left, right) if part is not None):
        raise DataError(f"{what}: {formula!r} has several parts (|); only one is allowed")
    for terms, own, most in ((left or [], (RESPONSE,), 1), (right, (TERM, SPLINE), len(right))):
        for term in terms:
            for factor in term.factors:
                alone = len(term.factors) == 1 and len(terms) <= most and what == "formula"
                if not alone or all(_arguments(factor, name) is None for name in own):
                    _check_names(factor, list(map(str, frame.columns)), what, formula)
    return (None if left is None else list(left)), list(right)


def _plain(error: Exception) -> str:
    """The first line of a message."""
    return str(error).strip().split("\n")[0]


def _mistake(formula: str, error: Exception) -> str:
    """What cannot be understood in a formula, and where."""
    if isinstance(error, SyntaxError):
        part = (error.text or "").strip()
        return f"this is no expression{_place(formula, part)}"
    first, _, marked = str(error).strip().partition("\n\n")
    place = MARKED.search(marked)
    said = next((words for theirs, words in SAID.items() if first.startswith(theirs)), first)
    return said if place is None else f"{said}{_place(formula, place[1], place.start())}"


def _place(formula: str, part: str, start: int | None = None) -> str:
    """The formula on a line of its own, with marks below a part of it; nothing if it does not have the part."""
    if start is None:
        match = re.search(rf"(?<!\w){re.escape(part)}(?!\w)", formula)
        if match is None or not part:
            return ""
        start = match.start()
    line = re.sub(r"\s", " ", formula)
    return f"\n    {line}\n    {' ' * start}{'^' * len(part)}"


def _arguments(factor: Any, name: str) -> tuple[str, ...] | None:
    """What is written inside a factor that is a call of a function, argument by argument; None for any other factor."""
    if factor.eval_method.value != "python":
        return None
    text = factor.expr.encode()
    # of the same length in bytes, which is what the positions in the syntax tree are
    tree = ast.parse(QUOTED.sub(lambda m: "_" * len(m[0].encode()), factor.expr), mode="eval").body
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == name):
        return None
    return tuple(
        text[a.col_offset : a.end_col_offset].decode()
        for a in [*tree.args, *(k.value for k in tree.keywords)]
    )


def _take_offsets(terms: list[Any], formula: str) -> tuple[list[Any], tuple[str, ...]]:
    """The terms that are not offsets, and what is written inside the others."""
    arguments = {str(term): _arguments(term.factors[0], TERM) for term in terms if len(term.factors) == 1}
    offsets = [inner for inner in arguments.values() if inner is not None]
    for inner in offsets:
        if len(inner) != 1:
            raise DataError(
                f"formula: {TERM}({', '.join(inner)}) must have one argument, such as {TERM}(log(n)){_place(formula, TERM)}"
            )
    return [term for term in terms if arguments.get(str(term)) is None], tuple(inner[0] for inner in offsets)


def _take_splines(
    terms: list[Any], frame: pd.DataFrame, formula: str
) -> tuple[list[Any], tuple[Expansion, ...]]:
    """The terms with straight lines in place of splines, and the splines."""
    kept, splines = [], []
    for term in terms:
        inner = _arguments(term.factors[0], SPLINE) if len(term.factors) == 1 else None
        if inner is None:
            kept.append(term)
            continue
        name, df = inner[0].strip("`") if inner else "", inner[1] if len(inner) > 1 else "4"
        where = _place(formula, SPLINE)
        if len(inner) not in (1, 2) or not df.isdigit():
            raise DataError(
                f"formula: {SPLINE}({', '.join(inner)}) must have a column and a number, such as {SPLINE}(age, df=4){where}"
            )
        if name not in map(str, frame.columns):
            raise DataError(
                f"formula: {SPLINE}: there is no column {name!r}{suggest(name, list(map(str, frame.columns)))}{where}"
            )
        if is_text(frame[name]):
            raise DataError(f"formula: {SPLINE}({name}) needs numbers, and the column has words{where}")
        splines.append(spline(name, int(df)))
        (line,) = _formulaic().Formula(f"0 + `{name}`")
        kept += [line] if all(str(line) != str(other) for other in terms) else []
    return kept, read_expansions(splines)


def _counted(left: list[Any], formula: str) -> tuple[str, ...]:
    """What is written for successes and failures in cbind(successes, failures); empty for any other response."""
    counts = (
        _arguments(left[0].factors[0], RESPONSE) if len(left) == 1 and len(left[0].factors) == 1 else None
    )
    if counts is not None and len(counts) != 2:
        raise DataError(
            f"formula: {RESPONSE}({', '.join(counts)}) must have two arguments, the numbers of successes and of failures; for "
            f"a number of trials write {RESPONSE}(successes, trials - successes){_place(formula, RESPONSE)}"
        )
    return counts or ()


def _check_names(factor: Any, columns: list[str], what: str, formula: str) -> None:
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
    functions = {
        n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    for name in sorted(names - set(columns)):
        where = _place(formula, name)
        if name in (TERM, RESPONSE, SPLINE):
            use = f"{TERM}(…) and {SPLINE}(…) are terms of their own after the ~, and {RESPONSE}(…) is all that is before it"
            raise DataError(f"{what}: {name}(…) cannot be used here; {use}{where}")
        if name in functions:
            near = f"np.{name}" if isinstance(getattr(np, name, None), np.ufunc) else "np.sqrt"
            raise DataError(
                f"{what}: there is no function {name!r}; there are log, exp, poly and other transformations of formulaic, and elementwise functions of "
                f"numpy such as {near}. Compute anything else as a column of the table first{where}"
            )
        raise DataError(f"{what}: there is no column {name!r}{suggest(name, columns)}{where}")


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


def _vector(expression: str, frame: pd.DataFrame, what: str, formula: str) -> np.ndarray:
    """The values of an expression in a formula, such as log(n), shape (n,)."""
    inner = _formulaic().Formula(f"0 + {{{expression}}}")
    for term in inner:
        for factor in term.factors:
            _check_names(factor, list(map(str, frame.columns)), "formula", formula)
    return _numbers(inner, frame, what)


def _counts(expression: str, frame: pd.DataFrame, formula: str) -> np.ndarray:
    """The numbers of successes or failures, which are whole and not negative."""
    what = f"{expression} in {RESPONSE}(…)"
    values = _vector(expression, frame, what, formula)
    bad = np.flatnonzero((values < 0) | (values != np.floor(values)))
    if bad.size:
        raise DataError(
            f"formula: {what} is {values[bad[0]]:g} in row {bad[0]}; numbers of successes and of failures are whole and not "
            f"negative{_place(formula, expression)}"
        )
    return values


def _response(terms: list[Any], frame: pd.DataFrame, labels: bool) -> Any:
    """The response: one column of numbers, or labels, if they are asked for, in any one column."""
    formula = _formulaic().Formula(terms)
    _check_complete(frame, _columns_used(formula, frame.columns))
    if labels and len(terms) == 1 and terms[0].factors[0].eval_method.value == "lookup":
        return frame[terms[0].factors[0].expr]
    matrix = _matrix(_formulaic().ModelSpec.from_spec(formula), frame)
    state = list(matrix.model_spec.encoder_state.values())
    if labels and len(terms) == len(state) == 1 and state[0][0].value == "categorical":
        return np.array(list(state[0][1]["categories"]), object)[matrix.to_numpy().argmax(axis=1)]
    advice = ": code two classes as 0 and 1 first, or use VariableSelectorClassifier"
    return _numbers(formula, frame, f"the response {str(formula)!r}", advice)


def _numbers(formula: Any, frame: pd.DataFrame, what: str, advice: str = "") -> np.ndarray:
    """The one column of numbers that a formula gives, shape (n,)."""
    _check_complete(frame, _columns_used(formula, frame.columns))
    matrix = _matrix(_formulaic().ModelSpec.from_spec(formula), frame)
    if matrix.shape[1] != 1:
        raise DataError(
            f"formula: {what} gives {matrix.shape[1]} columns, {', '.join(map(repr, matrix.columns[:4]))}; "
            f"it must be one column of numbers{advice}"
        )
    return read_vector(matrix.iloc[:, 0].to_numpy(), None, what)
