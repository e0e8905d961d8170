"""What a user would take instead: scikit-learn's LassoCV, BayesianRidge, and stability selection. They give no inclusion
probabilities; only what they select and how long it takes is compared."""

import time
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.peers.exchange import Skipped, Workload
from benchmarks.peers.process import children_cpu

HALVES, THRESHOLD = 50, 0.6  # of stability selection: half samples, and the share of them that must select
LARGEST_RIDGE = 5000  # variables: BayesianRidge keeps a p × p matrix


def _standardised(work: Workload) -> tuple[np.ndarray, np.ndarray]:
    X, y = work.X.to_numpy(), work.y.to_numpy()
    return X / X.std(axis=0), y / y.std()


def lasso(work: Workload, seed: int) -> np.ndarray:
    """LassoCV, five folds: coefficients that are not 0."""
    from sklearn.linear_model import LassoCV
    from sklearn.model_selection import KFold

    X, y = _standardised(work)
    fit = LassoCV(cv=KFold(5, shuffle=True, random_state=seed), max_iter=5000, tol=1e-3).fit(X, y)
    return fit.coef_ != 0


def ridge(work: Workload, seed: int) -> np.ndarray:
    """BayesianRidge: coefficients more than two standard deviations from 0."""
    from sklearn.linear_model import BayesianRidge

    if work.problem.p > LARGEST_RIDGE:
        raise Skipped(f"keeps a matrix of p × p numbers; left out above {LARGEST_RIDGE:,} variables")
    X, y = _standardised(work)
    fit = BayesianRidge().fit(X, y)
    return np.abs(fit.coef_) > 2 * np.sqrt(np.diag(fit.sigma_))


def stability(work: Workload, seed: int) -> np.ndarray:
    """Stability selection (Meinshausen & Bühlmann 2010): the lasso at LassoCV's penalty on half samples; variables that
    most of them select."""
    from sklearn.linear_model import Lasso, LassoCV
    from sklearn.model_selection import KFold

    X, y = _standardised(work)
    folds = KFold(5, shuffle=True, random_state=seed)
    alpha = LassoCV(cv=folds, max_iter=5000, tol=1e-3).fit(X, y).alpha_
    rng = np.random.default_rng(seed)
    counts = np.zeros(X.shape[1])
    for _ in range(HALVES):
        rows = rng.choice(len(y), len(y) // 2, replace=False)
        counts += Lasso(alpha=alpha, max_iter=5000, tol=1e-3).fit(X[rows], y[rows]).coef_ != 0
    return counts >= THRESHOLD * HALVES


SELECTORS: dict[str, Callable[[Workload, int], np.ndarray]] = {
    "scikit-learn LassoCV": lasso,
    "scikit-learn BayesianRidge": ridge,
    "stability selection": stability,
}


def timed(
    selector: Callable[[Workload, int], np.ndarray], work: Workload, seed: int
) -> tuple[np.ndarray, float]:
    """What is selected, and the CPU seconds it took, children included."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.process_time() + children_cpu()
        chosen = selector(work, seed)
        return np.asarray(chosen, bool), time.process_time() + children_cpu() - began
