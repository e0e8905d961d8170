"""Would the tests notice? A few mistakes, made on purpose in copies of the package, must each be caught.

The checks are exact and short (``support/mutant_checks.py``) and run without the JIT.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import whichvars
from support.once import once

PACKAGE = Path(whichvars.__file__).parent
TESTS = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    file: str
    old: str
    new: str
    caught_by: str


ADS = "samplers/add_delete_swap.py"
CHAIN, EVALUATE, FACTOR = "_kernels/chain.py", "_kernels/evaluate.py", "_kernels/factor.py"
INVERSE = "_kernels/inverse.py"
DECIDE = "_kernels/decide.py"
PRIOR = "_kernels/prior.py"
RATES = "_kernels/scan/rate_table.py"
STAND_INS = "_kernels/propose/stand_ins.py"
MODE_JUMPS = "_kernels/propose/mode_jumps.py"
RESIZE = "_kernels/propose/resize.py"
SUBSET = "_kernels/scan/subset_scan.py"
GIBBS, SCALED = "samplers/tempered_gibbs.py", "_kernels/propose/informed.py"
ASI, PARNI = "samplers/asi.py", "samplers/parni.py"
MUTANTS = {
    "a jump between modes that forgets the way back": Mutant(
        MODE_JUMPS,
        "= here - _log_probability(jumps, jumps.drawn, n)",
        "= -_log_probability(jumps, jumps.drawn, n)",
        "check_hybrid_moves",
    ),
    "a core of the form of two modes has the probability of the likelier one": Mutant(
        MODE_JUMPS, "if value > -np.inf:\n            total +=", "if value > np.inf:\n            total +=", "check_hybrid_moves"
    ),
    "a core with two variables in one slot": Mutant(
        MODE_JUMPS, "if s < 0 or jumps.seen[s] > 0:", "if s < 0:", "check_hybrid_moves"
    ),
    "a core that leaves a slot of a mode empty": Mutant(
        MODE_JUMPS, "if jumps.sizes[c] != n:", "if jumps.sizes[c] < n:", "check_hybrid_moves"
    ),
    "a change of the size by several that forgets how many models there are of each size": Mutant(
        RESIZE, "= log_resize_ratio(size, p, step)", "= 0.0", "check_hybrid_moves"
    ),
    "a deletion of several with the ratio of an addition": Mutant(
        RESIZE, "= -log_resize_ratio(size - step", "= log_resize_ratio(size - step", "check_hybrid_moves"
    ),
    "several are added where that many are not left": Mutant(
        RESIZE, "if adds and size + step <= p:", "if adds and size < p:", "check_hybrid_moves"
    ),
    "wrong sign in the ratio of an addition": Mutant(
        ADS,
        "return math.log(delete / (size + 1)) - math.log(add / (p - size))",
        "return math.log(add / (p - size)) - math.log(delete / (size + 1))",
        "check_proposals",
    ),
    "wrong sign in the ratio of a deletion": Mutant(
        ADS, "ratio = -log_add_ratio(size - 1, p, swap)", "ratio = log_add_ratio(size - 1, p, swap)", "check_transitions"
    ),
    "wrong proposal probability at the null model": Mutant(
        ADS, "add = 1.0 if size == 0 else 0.5 * (1.0 - swap)", "add = 0.5 * (1.0 - swap)", "check_proposals"
    ),
    "wrong proposal probability at the full model": Mutant(
        ADS, "delete = 1.0 if size + 1 == p else 0.5 * (1.0 - swap)", "delete = 0.5 * (1.0 - swap)", "check_transitions"
    ),
    "proposal probabilities left out of the ratio": Mutant(
        DECIDE, "log_ratio = chain.floats[LOG_PROPOSAL]", "log_ratio = 0.0", "check_transitions"
    ),
    "what is improbable is accepted half of the time": Mutant(
        DECIDE, "or rng.random() < acceptance)", "or rng.random() < max(acceptance, 0.5))", "check_estimated"
    ),
    "the model that is entered counted for the one that is left": Mutant(
        DECIDE,
        "        count_time_in_model(chain, tally)\n        count_changes(chain, tally, chain.ints[ADDED], chain.ints[DELETED])\n    accept",
        "        accept(target, chain)\n        count_time_in_model(chain, tally)\n        count_changes(chain, tally, chain.ints[ADDED], chain.ints[DELETED])\n    else:\n        accept",
        "check_counts",
    ),
    "n for ν": Mutant("problem/target.py", "else float(nu + 2 * a0)", "else float(n + 2 * a0)", "check_enumeration"),
    "ν/2 cut to a whole number": Mutant(
        "_kernels/evidence.py",
        "return -0.5 * slab.nu * math.log(residual)",
        "return -(slab.nu // 2) * math.log(residual)",
        "check_enumeration",
    ),
    "y's own length forgotten in a known variance": Mutant(
        "problem/target.py", "y_scale / noise.variance * y_scale / 2", "1 / noise.variance / 2", "check_enumeration"
    ),
    "degrees of freedom lost to a known variance": Mutant(
        "_kernels/evidence.py", "ratio = 2.0 * fit / columns", "ratio = fit / columns", "check_enumeration"
    ),
    "rows of the model before, in a list": Mutant(
        "_kernels/enumerate.py",
        "while shared < min(level, size) and path[shared] == members[first + shared]:",
        "while shared < min(level, size):",
        "check_lists",
    ),
    "stale inverse after a remembered model was accepted": Mutant(
        CHAIN, "chain.inverse.ints[STATE] = BEHIND", "pass", "check_walks"
    ),
    "the inverse follows a swap as if nothing had left": Mutant(
        INVERSE, "weights[row] / inverse.matrix[row, row], n, passing)", "0.0, n, passing)", "check_walks"
    ),
    "what leaves is forgotten in what enters": Mutant(
        EVALUATE, "right += shared[a, i] * corner_solved[i]", "pass", "check_walks"
    ),
    "size term of the prior left out": Mutant(
        EVALUATE, "return value + prior.log_size[size]", "return value + prior.log_size[0]", "check_walks"
    ),
    "stale factor after a rejection": Mutant(
        FACTOR,
        "    ints[TAIL] = split_at\n",
        "    ints[TAIL] = split_at\n"
        "    adopt(head, head_inverse, head_solved, split, tail, tail_inverse, tail_solved, n)\n",
        "check_walks",
    ),
    "stale factor after a remembered model was accepted": Mutant(
        CHAIN, "elif ints[VALID] > first:\n        ints[VALID] = first", "", "check_walks"
    ),
    "stale products after a remembered model was accepted": Mutant(
        CHAIN, "chain.filled[chain.free[top]] = ints[TAIL] != NO_TAIL", "chain.filled[chain.free[top]] = True", "check_walks"
    ),
    "stale prior after an acceptance": Mutant(
        CHAIN, "chain.floats[LOG_PRIOR] = chain.floats[NEW_LOG_PRIOR]", "pass", "check_walks"
    ),
    "memo answers for another model": Mutant(
        "_kernels/count/model_table.py", "if memo.keys[entry] == key:", "if memo.keys[entry] != 0:", "check_walks"
    ),
    "Gram column given away but still used": Mutant(
        "_kernels/products/gram_cache.py", "cache.place[cache.kept[place]] = -1", "pass", "check_walks"
    ),
    "sibling's factor used in the enumeration": Mutant(
        "_kernels/enumerate.py", "p)\n        n = columns[level]", "p)\n        n = columns[level] if level == 0 else n", "check_enumeration"
    ),
    "a child of two flipped parents counted twice": Mutant(
        PRIOR, "if first == j and before != after:", "if before != after:", "check_heredity"
    ),
    "a child left behind": Mutant(PRIOR, "if position[j] <= LEAVING and (", "if False and (", "check_heredity"),
    "a child before its parents": Mutant(
        PRIOR, "if place == -1 or place <= LEAVING:\n                return 0, -np.inf", "pass", "check_heredity"
    ),
    "a parent that may leave, in the scan": Mutant(
        PRIOR, "            log_odds[j] = np.inf\n            return", "            pass", "check_heredity"
    ),
    "stale number of available variables": Mutant(
        CHAIN, "ints[AVAILABLE] = ints[NEW_AVAILABLE]", "pass", "check_heredity"
    ),
    "children of a model of before, in the enumeration": Mutant(
        "_kernels/enumerate.py", "inside[in_order(prior_terms, place[level], p)] = -1", "pass", "check_heredity"
    ),
    "all variables counted as available": Mutant(
        "problem/heredity.py", "roots = sum(not parents for parents in self.parents)\n        children", "roots = p\n        children", "check_heredity"
    ),
    "time before an entry counted": Mutant(
        "_kernels/count/tally.py", "entered[chain.added[i]] = time", "pass", "check_counts"
    ),
    "an interval between scans that follows the model": Mutant(
        "_kernels/count/tally.py", "scans[NEXT_SCAN] += scans[SCAN_INTERVAL]", "scans[NEXT_SCAN] += scans[SCAN_INTERVAL] + chain.ints[SIZE]", "check_averages"
    ),
    "the same in ASI": Mutant(
        ASI, "scans[NEXT_SCAN] += scans[SCAN_INTERVAL]", "scans[NEXT_SCAN] += scans[SCAN_INTERVAL] + ints[SIZE]", "check_averages"
    ),
    "rows of another model in a scan": Mutant(
        CHAIN, "    if ints[SCANNED] > first:\n        ints[SCANNED] = first\n", "", "check_averages"
    ),
    "odds for probabilities in the averages": Mutant(
        "_kernels/scan/scan_work.py", "return odds / (1.0 + odds)", "return odds", "check_averages"
    ),
    "wrong rate of included variables": Mutant(
        RATES, "1.0 + kappa * (1.0 + 1.0 / x)", "1.0 + kappa * (1.0 + x)", "check_jumps"
    ),
    "wrong rate of the others": Mutant(RATES, "x + kappa * (1.0 + x) if", "x + kappa if", "check_jumps"),
    "a rate to models without mass": Mutant(RATES, " if x > 0.0 else 0.0", "", "check_jumps"),
    "the same for variables that must stay": Mutant(
        RATES, "0.0 if x == np.inf else 1.0 +", "1.0 +", "check_must_stay"
    ),
    "wrong conditional probability of included variables": Mutant(
        RATES, "probabilities[j] = 1.0 / (1.0 + 1.0 / x)", "probabilities[j] = 1.0", "check_conditionals"
    ),
    "a bound of log odds that makes two rates equal": Mutant(
        RATES, "    elif work.steep[0] > 0:\n", "    elif False:\n", "check_strong_rates"
    ),
    "the same for rates of a subset": Mutant(
        SUBSET, "    elif steep:\n        _scale_rates", "    elif False:\n        _scale_rates", "check_strong_subsets"
    ),
    "the same where some odds are products": Mutant(
        "_kernels/scan/scan.py", "if fast and work.steep[0] > 0:", "if False:", "check_strong_blocks"
    ),
    "time spent in models of no mass": Mutant(
        GIBBS, "if table.rows[place, TOTAL] < 0.0:", "if False:", "check_strong_jumps"
    ),
    "every visit weighs the same": Mutant(GIBBS, "+= 1.0 / total", "+= 1.0", "check_jumps"),
    "holding time without the rate of draws": Mutant(
        GIBBS, "+= 1.0 / total", "+= 1.0 / table.rows[place, TOTAL]", "check_jumps"
    ),
    "a flip chosen by the wrong part of a uniform": Mutant(
        GIBBS, "        u -= floats[LAMBDA]\n", "", "check_jumps"
    ),
    "entering variable taken as uniform in the hybrid's ratio": Mutant(
        SCALED, "forward = (1.0 if size == 0 else third) * informed.values[j, ENTER] / outside",
        "forward = (1.0 if size == 0 else third) / (p - size)", "check_hybrid_moves",
    ),
    "wrong chance of a deletion from the full model": Mutant(
        SCALED, "ratio = (1.0 if size + 1 == p else third)", "ratio = third", "check_hybrid_moves"
    ),
    "wrong chance of an addition to the null model": Mutant(
        SCALED, "backward = (1.0 if size == 1 else third)", "backward = third", "check_hybrid_moves"
    ),
    "share of what is out after a deletion": Mutant(
        SCALED, "share / (outside + share)", "share / outside", "check_hybrid_moves"
    ),
    "the reverse of a swap": Mutant(
        SCALED, "(leaving / (outside + leaving - entering))", "(leaving / outside)", "check_hybrid_moves"
    ),
    "numbers of stand-ins left out of the ratio": Mutant(
        STAND_INS, "math.log(mine / (starts[b + 1] - starts[b]))", "0.0", "check_hybrid_moves"
    ),
    "wrong sign of ASI's additions": Mutant(
        ASI, "log_ratio -= values[j, LOG_ODDS]", "log_ratio += values[j, LOG_ODDS]", "check_estimated"
    ),
    "wrong sign of ASI's deletions": Mutant(
        ASI, "log_ratio += values[j, LOG_ODDS]", "log_ratio -= values[j, LOG_ODDS]", "check_hybrid_moves"
    ),
    "PARNI in a fixed order": Mutant(
        PARNI, "out[i], out[other] = out[other], out[i]", "pass", "check_estimated"
    ),
    "PARNI without the odds of its estimate": Mutant(
        PARNI, "if present else -own.informed.values[j, LOG_ODDS]", "if present else 0.0", "check_estimated"
    ),
    "PARNI always accepts": Mutant(
        PARNI, "floats[LOG_RATIO] += math.log(z) - math.log(reverse)", "pass", "check_estimated"
    ),
    "PARNI goes back on half of its way": Mutant(
        PARNI, "for i in range(own.ints[FLIPPED]):", "for i in range(1, own.ints[FLIPPED]):", "check_estimated"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def failures(tmp_path_factory) -> dict[str, dict[str, str]]:
    """What the checks say of the package as it is ("none") and of each mutant."""
    return once(tmp_path_factory, "mutants", lambda: run_checks(tmp_path_factory.mktemp("mutants")))


def run_checks(root: Path) -> dict[str, dict[str, str]]:
    folders = {}
    for i, (name, mutant) in enumerate([("none", None), *MUTANTS.items()]):
        folder = root / str(i)
        shutil.copytree(
            PACKAGE, folder / "whichvars", ignore=shutil.ignore_patterns("datasets", "__pycache__")
        )
        if mutant is not None:
            path = folder / "whichvars" / mutant.file
            text = path.read_text(encoding="utf-8")
            assert text.count(mutant.old) == 1, (
                f"{name}: {mutant.file} has changed; bring the mutant up to date"
            )
            path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        folders[str(folder)] = name
    arguments = [f if n == "none" else f"{f}={MUTANTS[n].caught_by}" for f, n in folders.items()]
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(TESTS),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "support.mutant_checks", *arguments],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {folders[folder]: failed for folder, failed in json.loads(done.stdout).items()}


@pytest.mark.rest
def test_the_package_as_it_is_passes_every_check(failures):
    assert failures["none"] == {}


@pytest.mark.rest
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name, failures):
    assert MUTANTS[name].caught_by in failures[name], failures[name]
