"""The page of ``whichvars watch``: a run that is still being sampled."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from whichvars.posterior.posterior import Posterior
from whichvars.report import HERE, chart, fill, words
from whichvars.sampling.watching import DONE, RUNNING, STARTING, STOPPED, View

# variables in the chart
SHOWN = 25


def watch_page(title: str) -> str:
    """The page as HTML; its script asks for the content every few seconds."""
    script = (HERE / "watch.js").read_text(encoding="utf-8")
    return fill("watch.html", title=title, content="Reading the run …", script=script)


def content(view: View, events: Sequence[tuple[float, str]], resume: str) -> str:
    """The part of the page that changes, as HTML: the state of the run, its numbers, and what happened to it and when."""
    found = view.posterior
    return fill(
        "watched.html",
        state=view.state,
        headline=headline(view, resume),
        fraction=round(view.fraction, 4),
        percent=percent(view.fraction),
        damaged=view.damaged,
        facts=_facts(view),
        chart_so_far=None if found is None else chart.charts(found, SHOWN)[-1],
        answer="" if found is None else words.answer(found),
        verdict=None if found is None else words.verdict(found),
        events=[(clock_time(moment), sentence) for moment, sentence in events],
    )


def headline(view: View, resume: str) -> str:
    """The state of a run in words. `resume` is the command that continues it."""
    subject = view.part or "The run"
    if view.state == DONE:
        return "The run is done."
    if view.state == STARTING:
        return f"{subject} has started, and has not saved anything yet."
    if view.state == STOPPED:
        what = view.part[0].lower() + view.part[1:] if view.part else "it"
        when = f" when {percent(view.fraction)} of {what} were saved" if view.written else ""
        return f"The run is not running: it was killed or interrupted{when}. To continue it: {resume}"
    sentence = f"{subject} is running: {percent(view.fraction)} done"
    if view.seconds_left is not None:
        most = "at most " if view.target is not None else ""
        sentence += f", {most}about {duration(view.seconds_left)} left"
    return f"{sentence}."


def percent(fraction: float) -> str:
    return f"{fraction:.0%}".replace("%", " %")


def duration(seconds: float) -> str:
    """
    >>> duration(0.3), duration(42), duration(600), duration(9000)
    ('a second', '42 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 1.5:
        return "a second"
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def clock_time(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%H:%M:%S")


def _facts(view: View) -> list[tuple[str, str]]:
    """The most important numbers."""
    facts: list[tuple[str, str]] = []
    if view.iterations:
        total = "" if view.total is None else f" of {'at most ' if view.target else ''}{view.total:,}"
        facts.append(("iterations", f"{view.iterations:,}{total}"))
    if view.replicates:
        facts.append(("replicates with estimates", f"{view.counted} of {view.replicates}"))
    if view.posterior is not None:
        facts += _accuracy(view.posterior, view.target)
    if view.state in (RUNNING, STOPPED) and view.written is not None:
        facts.append(("last saved", clock_time(view.written)))
    return facts


def _accuracy(posterior: Posterior, target: float | None) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    if np.isfinite(posterior.mcse).any() and not posterior.models.exact:
        wanted = "" if target is None else f"; the run ends at {target:g}"
        facts.append(
            ("largest error of a probability", f"{_small(float(np.nanmax(posterior.mcse)))}{wanted}")
        )
    apart = words.largest_spread(posterior)
    if apart is not None:
        facts.append(("largest difference between replicates", _small(apart)))
    return facts


def _small(value: float) -> str:
    """
    >>> _small(0.01234), _small(0.00001)
    ('0.012', '< 0.0001')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"
