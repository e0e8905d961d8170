"""Posteriors under dilution priors by brute force: determinants come from least squares on the raw columns, one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from support.cases import Data
from support.oracle import OraclePosterior


class Diluted(NamedTuple):
    log_priors: np.ndarray  # (models,)
    prior_pips: np.ndarray
    pips: np.ndarray
    log_evidence: float


def log_determinant(X: np.ndarray, base: np.ndarray) -> float:
    """log |R| of the residuals of the columns on `base`: Σ log (1 − R²) of each on those before it."""
    total, before = 0.0, base
    for column in X.T:
        own = column - base @ np.linalg.lstsq(base, column, rcond=None)[0]
        left = column - before @ np.linalg.lstsq(before, column, rcond=None)[0]
        share = (left @ left) / (own @ own)
        if share < 1e-9:
            return -np.inf
        total += np.log(share)
        before = np.column_stack([before, column])
    return total


def dilute(data: Data, undiluted: OraclePosterior, power: float) -> Diluted:
    """The posterior under the prior of `undiluted` times (|R_γ| / Π |R_j|)^power."""
    root = np.ones(len(data.y)) if data.weights is None else np.sqrt(data.weights)
    ones = np.ones((len(data.y), 1))
    base = (ones if data.Z is None else np.hstack([ones, data.Z])) * root[:, None]
    X = (data.X - data.X.mean(axis=0)) * root[:, None]
    groups = [[j] for j in range(X.shape[1])] if data.groups is None else data.groups
    own = np.array([log_determinant(X[:, columns], base) for columns in groups])
    extra = []
    for mask in undiluted.masks:
        inside = np.flatnonzero(mask)
        columns = [c for j in inside for c in groups[j]]
        extra.append(log_determinant(X[:, columns], base) - own[inside].sum())
    log_priors = undiluted.log_priors + power * np.array(extra)
    log_priors -= logsumexp(log_priors)
    joint = log_priors + undiluted.log_marginals
    evidence = float(logsumexp(joint))
    return Diluted(
        log_priors,
        np.exp(log_priors) @ undiluted.masks,
        np.exp(joint - evidence) @ undiluted.masks,
        evidence,
    )
