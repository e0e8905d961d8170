"""Families: the log density ℓ(y, η) of a response given its linear predictor, and its derivatives in η. Terms without η are left
out.
"""

import math

from whichvars._kernels.jit import kernel

# A negative binomial of given dispersion r is BINOMIAL with y + r trials and log r less in the offset. For a Student response with ν degrees
# of freedom and scale s, the response is a part of the offset, so that η is the linear predictor less the response; ν stands in the place
# of y, and νs² in that of trials.
BINOMIAL, PROBIT, POISSON, STUDENT = range(4)

ROOT_2PI = math.sqrt(2.0 * math.pi)
LOG_2PI = math.log(2.0 * math.pi)
FAR_BELOW = -5.0  # where the normal distribution function is computed by a continued fraction
FRACTION_TERMS = 60
LARGEST_LOG = 700.0  # of a rate, beyond which it would overflow


@kernel
def mills(t):
    """λ = φ(t)/Φ(t), and t + λ without cancellation where t is far below 0."""
    if t > FAR_BELOW:
        ratio = math.exp(-0.5 * t * t) / (ROOT_2PI * 0.5 * math.erfc(-t / math.sqrt(2.0)))
        return ratio, t + ratio
    x = -t
    rest = 0.0  # 1/(x + 2/(x + 3/(x + …)))
    for j in range(FRACTION_TERMS, 0, -1):
        rest = j / (x + rest)
    return x + rest, rest


@kernel
def log_normal_distribution(t):
    """log Φ(t)."""
    if t > 5.0:
        return math.log1p(-0.5 * math.erfc(t / math.sqrt(2.0)))
    if t > FAR_BELOW:
        return math.log(0.5 * math.erfc(-t / math.sqrt(2.0)))
    ratio, _ = mills(t)
    return -0.5 * t * t - 0.5 * LOG_2PI - math.log(ratio)


@kernel
def log_density(code, y, trials, eta):
    """ℓ(y, η)."""
    if code == BINOMIAL:
        if eta > 0.0:
            return (y - trials) * eta - trials * math.log1p(math.exp(-eta))
        return y * eta - trials * math.log1p(math.exp(eta))
    if code == POISSON:
        if eta > LARGEST_LOG:
            return -math.inf
        return y * eta - math.exp(eta)
    if code == STUDENT:
        return -0.5 * (y + 1.0) * math.log1p(eta * eta / trials)
    return log_normal_distribution(eta if y > 0.5 else -eta)


@kernel
def first_and_second(code, y, trials, eta):
    """ℓ' and −ℓ''."""
    if code == BINOMIAL:
        small = math.exp(-abs(eta))
        share = small / (1.0 + small)
        second = trials * share / (1.0 + small)
        if eta > 0.0:
            return (y - trials) + trials * share, second
        return y - trials * share, second
    if code == POISSON:
        mean = math.exp(eta)
        return y - mean, mean
    if code == STUDENT:
        whole = trials + eta * eta
        weight = (y + 1.0) / whole
        return -weight * eta, weight * (trials - eta * eta) / whole
    sign = 1.0 if y > 0.5 else -1.0
    ratio, rest = mills(sign * eta)
    return sign * ratio, ratio * rest


@kernel
def largest_second(code, y, trials, eta, second):
    """An upper bound of −ℓ'' over all η; of counts, which have none, what it is here (`second`) or at a mean of y. Of a Student response, the
    curvature of the parabola below ℓ that touches it here, which is the weight of iteratively reweighted least squares."""
    if code == BINOMIAL:
        return 0.25 * trials
    if code == POISSON:
        return max(second, y, 1.0)
    if code == STUDENT:
        return (y + 1.0) / (trials + eta * eta)
    return 1.0


@kernel
def third_and_fourth(code, y, trials, eta):
    """ℓ''' and ℓ''''."""
    if code == BINOMIAL:
        small = math.exp(-abs(eta))
        v = small / ((1.0 + small) * (1.0 + small))
        tilt = (1.0 - small) / (1.0 + small)  # |1 − 2μ|
        if eta > 0.0:
            tilt = -tilt
        return -trials * v * tilt, -trials * v * (1.0 - 6.0 * v)
    if code == POISSON:
        mean = math.exp(eta)
        return -mean, -mean
    if code == STUDENT:
        square = eta * eta
        whole = trials + square
        cube = whole * whole * whole
        third = 2.0 * (y + 1.0) * eta * (3.0 * trials - square) / cube
        return third, 6.0 * (y + 1.0) * (trials * trials - 6.0 * trials * square + square * square) / (
            cube * whole
        )
    sign = 1.0 if y > 0.5 else -1.0
    a, b = mills(sign * eta)
    return sign * a * (b * b + a * b - 1.0), a * (3.0 * b + a - b * b * b - 4.0 * a * b * b - a * a * b)
