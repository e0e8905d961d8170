"""Families: the log density ℓ(y, η) of a response given its linear predictor, and its derivatives in η. Terms without η are left
out.
"""

import math

from whichvars._kernels.jit import kernel

# A negative binomial of given dispersion r is BINOMIAL with y + r trials and log r less in the offset.
BINOMIAL, PROBIT, POISSON = range(3)

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
    sign = 1.0 if y > 0.5 else -1.0
    ratio, rest = mills(sign * eta)
    return sign * ratio, ratio * rest


@kernel
def largest_second(code, y, trials, second):
    """An upper bound of −ℓ'' over all η; of counts, which have none, what it is here (`second`) or at a mean of y."""
    if code == BINOMIAL:
        return 0.25 * trials
    if code == POISSON:
        return max(second, y, 1.0)
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
    sign = 1.0 if y > 0.5 else -1.0
    a, b = mills(sign * eta)
    return sign * a * (b * b + a * b - 1.0), a * (3.0 * b + a - b * b * b - 4.0 * a * b * b - a * a * b)
