"""How often a sampler moved, in numbers and words, for ``Posterior.diagnostics``."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from whichvars.posterior.diagnostics import LOG_POSTERIOR, SIZE

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior

MUTATION, ACCEPTANCE, EXCHANGES = "(mutation rate)", "(acceptance rate)", "(exchange rate)"
# what proposals of several kinds do
KINDS = {
    "add": "proposals to add a variable",
    "delete": "proposals to delete one",
    "swap": "proposals to swap one for another",
    "scaled": "moves that change several variables at once",
    "add/delete/swap": "moves that add, delete or swap one variable",
    "stand-in": "swaps of a variable for one that is correlated with it",
    "mode jump": "jumps between the modes that a search found",
    "size": "moves that add or delete several variables at once",
}


def with_move_rows(table: pd.DataFrame, posterior: "Posterior") -> pd.DataFrame:
    """The diagnostics with rows about moves below those of the model size and the log posterior."""
    rows = move_rows(posterior.adaptation) if posterior.condition is None else []
    if not rows:
        return table
    new = pd.DataFrame(rows).set_index("name").reindex(columns=table.columns)
    whole = int(table.index.isin([SIZE, LOG_POSTERIOR]).sum())
    parts = [table.iloc[:whole], new.astype(dict.fromkeys(new.columns[:-1], float)), table.iloc[whole:]]
    return pd.concat(parts).rename_axis("quantity")


def move_rows(learned: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rates by replicate as rows: their name, mean, lowest and highest value, and what they mean."""
    rows = []
    if mutation := [float(one["mutation_rate"]) for one in learned if "mutation_rate" in one]:
        rows.append(_row(MUTATION, mutation, "the model changed in {} of the iterations"))
    if proposed := [one for one in learned if "acceptance_by_changes" in one]:
        rows += _by_changes(proposed)
    for kind, words in KINDS.items():
        rates = [
            one["acceptance"][kind]
            for one in learned
            if kind in one.get("acceptance", ()) and _tried(one, kind)
        ]
        if rates:
            rows.append(_row(f"(acceptance: {kind})", rates, f"{{}} of the {words} were accepted"))
    if exchanged := [
        np.asarray(one["swap_rates"], float) for one in learned if len(one.get("swap_rates", ()))
    ]:
        words = f"neighbouring temperatures exchanged their models in {{}} of the attempts, the rarest pair in {_percent(np.mean(exchanged, axis=0).min())}"
        rows.append(_row(EXCHANGES, [float(rates.mean()) for rates in exchanged], words))
    return rows


def _by_changes(learned: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The share of the proposals with a change that were accepted, if there were any."""
    rates, changes = [], []
    for one in learned:
        number = np.asarray(one["changes_proposed"], float)[1:]
        acceptance = np.nan_to_num(np.asarray(one["acceptance_by_changes"], float)[1:])
        if number.sum() > 0:
            rates.append(float(number @ acceptance / number.sum()))
            changes.append(float(number @ np.arange(1, len(number) + 1) / number.sum()))
    if not rates:
        return []
    words = f"{{}} of the proposals that change the model were accepted; they change {np.mean(changes):.3g} variables on average"
    return [_row(ACCEPTANCE, rates, words)]


def _tried(learned: dict[str, Any], kind: str) -> bool:
    """Whether moves of this kind were possible."""
    possible = {
        "stand-in": learned.get("stand_ins"),
        "mode jump": learned.get("modes", 0) > 1,
        "size": learned.get("size_step"),
    }
    return bool(possible.get(kind, True))


def _row(name: str, rates: list[float], words: str) -> dict[str, Any]:
    mean = float(np.mean(rates))
    return {
        "name": name,
        "estimate": mean,
        "lowest": min(rates),
        "highest": max(rates),
        "note": words.format(_percent(mean)),
    }


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
