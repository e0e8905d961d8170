r"""Whether z-scores and correlations of variants (LD) belong together.

With LD of the same people, z-scores are :math:`z \sim N(Rb, R)`, b the expected scores of the causal variants. LD of other people differs from
that, and is often not even positive semi-definite. As in susieR's ``estimate_s_rss``, R is then replaced by

.. math:: R_s = (1 - s) R + s I

with s between 0 and 1 estimated by maximum likelihood. Strong signals would bias it, as :math:`z \sim N(0, R_s)` leaves no room for b; therefore
the likelihood is that of the other scores given those of a few leading variants L, which are found by stepwise conditioning: by Gaussian
conditioning its logarithm is :math:`\log N(z; 0, R_s) - \log N(z_L; 0, R_{s,LL})`. s is also at least so large that no eigenvalue of
:math:`R_s` is negative.

Given all other scores, that of variant j is normal with mean :math:`m_j = -\sum_{i \ne j} \Omega_{ji} z_i / \Omega_{jj}` and variance
:math:`v_j = 1/\Omega_{jj}`, where :math:`\Omega = R_s^{-1}`. The log likelihood ratio of a score with the other sign to the score itself is
:math:`-2 z_j m_j / v_j`. If it is large, the two sources probably count different alleles. The worst such variant is turned round and the others
are looked at again, as one wrong sign spoils the expectations of its neighbours.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# a variant leads if its score, conditioned on the leading variants before it, exceeds this; and most of them
LEADING_SCORE, MOST_LEADING = 5.0, 10
# estimates below this are rounding errors of z
NEGLIGIBLE = 1e-9
# log likelihood by which an estimate of s must be better than s = 0
GAIN = 3.0
# log likelihood ratio and |z| from which a score has the wrong sign
FLIP_RATIO, FLIP_SCORE = 10.0, 3.7
# |z| from which a smaller score can have the wrong sign; and the log likelihood ratio for it if s is larger than SAME_PEOPLE, because LD of other
# people may be of the other sign than that of the data where it is weak
SMALL_SCORE, CLEAR_RATIO, SAME_PEOPLE = 1.0, 50.0, 0.01
# |difference from expectation| in standard deviations from which a score is an outlier
OUTLIER = 5.0
# an outlier contradicts the others if the difference is more than rounding and slightly other people can make, and if the effect that would explain
# it has an expected score so many times as large as the largest score
CONTRADICTION, TIMES_LARGEST = 1.0, 4.0
# most signs that are turned round
MOST_FLIPS = 100
# most variants that are looked for as the reason why s is large, the s with which they are looked for, and how many times smaller s is without them
MOST_SPOILING, LITTLE, FAR_SMALLER = 3, 0.01, 10.0


class Spectrum(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors of R."""

    values: np.ndarray
    vectors: np.ndarray

    def mixed(self, s: float) -> np.ndarray:
        """The eigenvalues of (1 − s) R + s I."""
        return (1 - s) * self.values + s


class Consistency(NamedTuple):
    """What ``consistency`` finds."""

    s: float  # share of the identity matrix, with the signs of `flipped` turned round
    flipped: list[int]  # variants whose sign should be the other one, worst first
    expected: np.ndarray  # (p,) of each score given all others, with the signs as given
    sd: np.ndarray  # (p,)
    log_ratio: np.ndarray  # (p,) of the other sign to the one given
    # whether s is so large only because otherwise no n rows could have such scores
    for_n: bool = False
    # the share of the variance of y that all variants together would explain, if that is more than 1 and the noise variance counts as known instead
    explained: float = 1.0
    # variants without whose scores s would be far smaller
    spoiling: Sequence[int] = ()


def consistency(z: np.ndarray, R: np.ndarray, spectrum: Spectrum) -> Consistency:
    """Estimate s, and find scores of the wrong sign.

    Parameters
    ----------
    z : array, shape (p,)
    R : array, shape (p, p)
    spectrum : Spectrum
        Of R.
    """
    flipped: list[int] = []
    sign = np.ones(len(z))
    # beyond which no eigenvalue is negative
    negative = max(0.0, -float(spectrum.values[0]))
    definite = negative / (1 + negative)
    likely = estimate_s(z, R, spectrum)
    while True:
        s, spoiling = max(likely, definite), list[int]()
        if s > SAME_PEOPLE and len(flipped) <= MOST_FLIPS:
            spoiling, smaller = _spoiling(z * sign, R, spectrum, s, definite)
            new = [
                j for j in spoiling if j not in flipped and _other_sign_fits(j, z * sign, spectrum, smaller)
            ]
            if new:
                flipped += new
                sign[new] = -1.0
                likely = estimate_s(z * sign, R, spectrum)
                continue
        omega = _precision(spectrum, s)
        found = _turn_round(z * sign, omega, FLIP_RATIO if s <= SAME_PEOPLE else CLEAR_RATIO)
        new = [j for j in found if j not in flipped]
        if not new or len(flipped) > MOST_FLIPS:
            break
        flipped += new
        sign[new] = -1.0
        # with fewer wrong signs less of the identity is needed, so that more of them are seen
        likely = estimate_s(z * sign, R, spectrum)
    mean, variance, _ = _given_others(z * sign, omega)
    return Consistency(s, flipped, mean, np.sqrt(variance), -2 * z * mean / variance, spoiling=spoiling)


def estimate_s(z: np.ndarray, R: np.ndarray, spectrum: Spectrum, without: Sequence[int] = ()) -> float:
    """The maximum likelihood estimate of s; 0 if it is not clearly better than 0. Scores of the variants in `without` are not used."""
    out = np.array(without, np.int64)
    rest = np.setdiff1d(np.arange(len(z)), out)
    leading = rest[leading_variants(z[rest], R[np.ix_(rest, rest)] if len(out) else R)].tolist()
    rotated = spectrum.vectors.T @ z
    squares, of_out = rotated**2, spectrum.vectors[out]
    inner, chosen = R[np.ix_(leading, leading)], z[leading]

    def log_likelihood(s: float) -> float:
        v = np.maximum(spectrum.mixed(s), 1e-12)
        whole = -0.5 * float(np.sum(np.log(v) + squares / v))
        if len(out):
            # less the density of the scores that are not used, given the others: normal with precision A and mean z − A⁻¹b
            A, b = (of_out / v) @ of_out.T, of_out @ (rotated / v)
            whole += 0.5 * float(b @ np.linalg.solve(A, b) - np.linalg.slogdet(A)[1])
        if not leading:
            return whole
        part = (1 - s) * inner + s * np.eye(len(leading))
        return whole + 0.5 * float(np.linalg.slogdet(part)[1] + chosen @ np.linalg.solve(part, chosen))

    grid = np.concatenate([np.logspace(-12, -2, 51), np.linspace(0.015, 0.99, 66)])
    values = [log_likelihood(s) for s in grid]
    best = int(np.argmax(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(40):
        a, b = high - 0.618 * (high - low), low + 0.618 * (high - low)
        low, high = (a, high) if log_likelihood(a) < log_likelihood(b) else (low, b)
    s = float((low + high) / 2)
    if s < NEGLIGIBLE or log_likelihood(s) < log_likelihood(0.0) + GAIN:
        return 0.0
    return s


def leading_variants(z: np.ndarray, R: np.ndarray) -> list[int]:
    """Variants by stepwise conditioning: each has the largest score given those before it."""
    leading: list[int] = []
    rest, left = z.copy(), np.ones(len(z))
    columns = np.zeros((len(z), 0))
    while len(leading) < MOST_LEADING:
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(left > 0.05, np.abs(rest) / np.sqrt(left), 0.0)
        j = int(np.argmax(score))
        if score[j] < LEADING_SCORE:
            break
        # one step of Cholesky's elimination
        column = (R[:, j] - columns @ columns[j]) / np.sqrt(left[j])
        rest = rest - column * (rest[j] / column[j])
        left = left - column**2
        columns = np.column_stack([columns, column])
        leading.append(j)
    return leading


def contradicting(z: np.ndarray, found: Consistency) -> list[int]:
    """Scores that the others contradict, worst first, by more than an effect can explain.

    Given all other scores, the expected score of a variant's effect is estimated by :math:`(z_j - m_j) / v_j`. Causal variants without a close
    proxy are outliers as well, but this is then about their score itself. Where a proxy is close, v is small, and a wrong score would need an
    effect that is many times as large.
    """
    difference = np.abs(z - found.expected)
    effect = difference / found.sd**2
    most = TIMES_LARGEST * np.abs(z).max(initial=0.0)
    outlying = (difference > OUTLIER * found.sd) & (difference > CONTRADICTION) & (effect > most)
    outlying[list(found.spoiling)] = True
    outlying[found.flipped] = False
    worst_first = np.argsort(-difference / found.sd, kind="stable")
    return worst_first[outlying[worst_first]].tolist()


def _spoiling(
    z: np.ndarray, R: np.ndarray, spectrum: Spectrum, s: float, definite: float
) -> tuple[list[int], float]:
    """At most MOST_SPOILING scores without which s is far smaller, and that s; none if there are no so few.

    One wrong score can make s so large that little is expected of any score, so that none is an outlier. Therefore outliers are looked for with an
    s that is hardly more than what makes R positive semi-definite.
    """
    omega = _precision(spectrum, definite + LITTLE)
    out, score = list[int](), omega @ z
    for _ in range(min(MOST_SPOILING, len(z) - 2)):
        # of all others given those that are not out
        inner = np.linalg.inv(omega[np.ix_(out, out)])
        change = omega[:, out] @ inner
        rest, scale = score - change @ score[out], np.diagonal(omega) - np.sum(change * omega[:, out], axis=1)
        rest[out], scale[out] = 0.0, 1.0
        out.append(int(np.argmax(np.abs(rest) / np.sqrt(scale))))
        without = max(estimate_s(z, R, spectrum, out), definite)
        if without <= s / FAR_SMALLER:
            return out, without
    return [], s


def _precision(spectrum: Spectrum, s: float) -> np.ndarray:
    """The inverse of (1 − s) R + s I; eigenvalues that are 0 but for rounding count as very small ones."""
    return (spectrum.vectors / np.maximum(spectrum.mixed(s), 1e-8)) @ spectrum.vectors.T


def _given_others(z: np.ndarray, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of each score given all others, and the log likelihood ratio of the other sign."""
    variance = 1 / np.diagonal(omega)
    mean = z - (omega @ z) * variance
    return mean, variance, -2 * z * mean / variance


def _other_sign_fits(j: int, z: np.ndarray, spectrum: Spectrum, s: float) -> bool:
    """Whether a score of variant j contradicts the others, but would not with the other sign."""
    mean, variance, ratio = (part[j] for part in _given_others(z, _precision(spectrum, s)))
    return bool(
        abs(z[j]) >= SMALL_SCORE and ratio >= FLIP_RATIO and abs(z[j] + mean) <= OUTLIER * np.sqrt(variance)
    )


def _turn_round(z: np.ndarray, omega: np.ndarray, clear: float) -> list[int]:
    """Variants whose sign should be the other one, worst first; `clear` is the least ratio for small scores."""
    z, found = z.copy(), list[int]()
    while len(found) < MOST_FLIPS:
        mean, variance, ratio = _given_others(z, omega)
        # differences beyond chance, as LD of other people makes them, count for less
        spread = max(1.0, float(np.median(np.abs(z - mean) / np.sqrt(variance))) / 0.6745) ** 2
        ratio = ratio / spread
        large = (np.abs(z) >= FLIP_SCORE) & (ratio >= FLIP_RATIO)
        # a small score is an outlier rather than one of the wrong sign if it would not fit with the other sign either
        fits = np.abs(z + mean) <= OUTLIER * np.sqrt(spread * variance)
        small = (np.abs(z) >= SMALL_SCORE) & (ratio >= clear) & fits
        ratio = np.where(large | small, ratio, 0.0)
        ratio[found] = 0.0
        j = int(np.argmax(ratio))
        if ratio[j] == 0.0:
            break
        z[j] = -z[j]
        found.append(j)
    return found
