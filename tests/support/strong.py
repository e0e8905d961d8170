"""Problems with strong evidence: log odds of 10³, 10⁵ and 10⁷ between neighbouring models, at R² below .99.

A design of 32 rows, each of which stands for `copies` rows, so that n is up to 8 million and the oracle still works on
32. Its columns are made of orthonormal directions and the response has a given t-value along each of them, so that every
quantity is where it is wanted: strong variables come with *stand-ins*, columns so near to them that the data hardly tell
which of the two it is, and weak variables have t-values at which the slab is undecided. Inclusion probabilities
are so neither 0 nor 1, whatever the strength, and whoever has the odds of two strong variables wrong, has them wrong.

Names are ``strong-STRUCTURE-STRENGTH``, as in ``strong-stand-ins-5``.
"""

from __future__ import annotations

import math

import numpy as np

ROWS = 32
# name: copies of each row, log odds of a strong variable given the others. Degrees of freedom up to 4096, where scans
# take products in place of logarithms, and above
STRENGTHS: dict[str, tuple[int, float]] = {
    "3": (32, 1e3),
    "3-tall": (2**11, 1e3),
    "5": (2**11, 1e5),
    "7": (2**18, 1e7),
}
STEEP: dict[str, tuple[int, float]] = {"2000": (32, 2e3)}  # for transition matrices
STRUCTURES = ("stand-ins", "plain", "duplicate", "groups", "heredity", "columns", "sparse", "mapped")
IN_ROWS = ("columns", "sparse", "mapped")  # those that the package is given with every row there is


def is_strong(name: str) -> bool:
    return name.startswith("strong-")


def undecided(slab: str, n: int, fit: float, columns: int) -> tuple[float, float]:
    """The t-value of a column that the slab gives even odds beside a model of so many columns with 1 − R² = 1/(1 + fit);
    and by how much it shrinks squared t-values."""
    shrink = 1.0
    g = n * fit / columns  # about where the mixtures and empirical Bayes have it
    if slab == "g":
        g = 20.0
        shrink = g / (1 + fit) / (1 + g / (1 + fit))
    penalty = {
        "independent": 0.5 * math.log(2.0 * n), "unknown-g": 0.5 * math.log(6.0 * n), "bic": 0.5 * math.log(n),
    }.get(slab, 0.5 * math.log1p(g))  # fmt: skip
    return math.sqrt(2 * penalty / shrink), shrink


class Directions:
    """Orthonormal directions without a mean, and the t-value of the response along each that is taken."""

    def __init__(self, rng: np.random.Generator) -> None:
        start = rng.normal(size=(ROWS, ROWS - 1))
        self.basis = np.linalg.qr(start - start.mean(axis=0))[0]
        self.taken = 0
        self.t = np.zeros(ROWS - 1)

    def take(self, t: float) -> np.ndarray:
        self.t[self.taken] = t
        self.taken += 1
        return self.basis[:, self.taken - 1]

    def response(self, rng: np.random.Generator, copies: int) -> np.ndarray:
        """With residual variance 1 where all directions are in."""
        noise = self.basis[:, self.taken :] @ rng.normal(size=ROWS - 1 - self.taken)
        noise *= math.sqrt(ROWS) / np.linalg.norm(noise)
        return 3.0 + self.basis @ (self.t / math.sqrt(copies)) + noise


def strong_data(name: str, slab: str) -> dict:
    """The arguments of ``cases.Data``."""
    strength = max((s for s in STRENGTHS | STEEP if name.endswith(f"-{s}")), key=len)
    structure = name[len("strong-") : -len(f"-{strength}")]
    copies, log_odds = (STRENGTHS | STEEP)[strength]
    n = ROWS * copies
    one = math.expm1(2 * log_odds / n)  # what a strong variable adds to R²/(1 − R²), given the rest
    rng = np.random.default_rng(sum(map(ord, name)))
    space = Directions(rng)
    t = math.sqrt(n * one)
    edge, shrink = undecided(slab, n, 2 * one, 3)

    def strong() -> np.ndarray:
        return space.take(t)

    def stand_in(x: np.ndarray, log_odds: float, share: float = 1.0) -> np.ndarray:
        """A near copy of x that is worse by about `log_odds`; both together are about as good as one of them."""
        if slab == "independent":  # which charges next to nothing for the second of two near copies
            other = 0.3
            apart = other + math.sqrt(other**2 + 2 * log_odds)
        else:
            other = edge * share
            apart = other + math.sqrt(other**2 + 2 * log_odds / shrink)
        return x + apart / t * space.take(other)

    def weak(share: float, of: np.ndarray) -> np.ndarray:
        """A column whose t-value is so much of the undecided one, correlated with another."""
        return space.take(share * edge) + 0.3 * of

    groups = parents = None
    options: dict = {}
    form = "statistics"
    a, b = strong(), strong()
    if structure == "stand-ins" or structure in IN_ROWS:
        columns = [a, stand_in(a, 0.7), weak(1.0, a), b, stand_in(b, 0.2, 0.95), weak(0.9, b), weak(1.1, a)]
        if structure in IN_ROWS:
            form = "rows" if structure == "columns" else structure
            options = {"engine": "columns"}
    elif structure == "plain":
        columns = [weak(1.0, a), a, weak(0.95, a), weak(1.1, b), b, weak(0.9, a), weak(1.05, b)]
    elif structure == "duplicate":
        columns = [a, -2.0 * a, weak(1.0, a), b, stand_in(b, 0.5), weak(0.9, b), 0.5 * a]
    elif structure == "groups":  # of one, two and three columns; the second and third are stand-ins
        c = strong()
        copies_of = [stand_in(a, 0.3), stand_in(b, 0.1)]
        columns = [
            weak(1.0, a),
            a,
            b,
            *copies_of,
            c,
            stand_in(c, 0.5),
            weak(1.0, c),
            weak(0.9, a),
            weak(0.9, b),
        ]
        groups = [[0], [1, 2], [3, 4], [5], [6], [7, 8, 9]]
    elif structure == "heredity":  # a:b, a, b, another way to write a:b, c, c², d
        c = strong()
        d = weak(1.1, a)
        columns = [c, a, b, stand_in(c, 0.4), d, weak(1.0, d), weak(0.95, b)]
        parents = ((1, 2), (), (), (1, 2), (), (4,), ())
    elif structure == "three":
        columns = [a, stand_in(a, 0.7), b]
    elif structure == "three-weak":
        columns = [weak(1.0, a), a, stand_in(a, 0.7)]
        space.t[1] = 0.0  # b is no part of it
    elif structure == "three-duplicate":
        columns = [a, -2.0 * a, b]
    elif structure == "three-heredity":  # the interaction stands before its parent
        columns = [b, a, stand_in(b, 0.7)]
        parents = ((1,), (), (1,))
    else:
        raise ValueError(f"unknown structure {structure!r}")
    X = np.column_stack(columns) * math.sqrt(ROWS)
    X = X * np.linspace(0.5, 2.0, X.shape[1]) + np.linspace(-1.0, 1.0, X.shape[1])
    if structure.endswith("duplicate"):  # to the last bit, after rescaling
        X[:, 1] = 1.0 - 2.0 * X[:, 0]
    if structure == "duplicate":
        X[:, 6] = X[:, 0]
    return {
        "X": X,
        "y": space.response(rng, copies),
        "groups": groups,
        "parents": parents,
        "options": options,
        "copies": copies,
        "form": form,
    }
