"""The plots of a report, embedded in the page as pictures."""

import base64
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars import plots
from whichvars.data.expanding import curve_of
from whichvars.errors import WhichvarsError
from whichvars.plots.curves import splines_of
from whichvars.plots.drawing import NothingToDrawError, fix_layout, off_screen, require
from whichvars.plots.effects import correlations
from whichvars.plots.questions import most_probable
from whichvars.posterior.family_words import outcome
from whichvars.posterior.pooling import PooledPosterior
from whichvars.posterior.posterior import Posterior
from whichvars.posterior.residual_checks import ResidualCheck
from whichvars.problem.families import Gaussian, is_linear
from whichvars.problem.priors import BIC, GPrior, HyperGN, IndependentNormal, Slab
from whichvars.sampling.comparing_priors import compare_priors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# plots with their titles, captions, alternative texts and settings
Wanted = list[tuple[str, str, str, Callable[..., Any], dict[str, Any]]]

SETTINGS = {
    "svg.fonttype": "none",  # keep text as text, which is small and drawn with the fonts of the reader's machine
    "svg.hashsalt": "whichvars",  # so that the same picture gives the same file
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib
    "figure.dpi": 100,
    "path.simplify_threshold": 0.7,  # long traces without detail that cannot be seen
}
FONTS = b"'DejaVu Sans', sans-serif", b"'DejaVu Sans', Verdana, sans-serif"  # of nearly equal widths
CORRELATED = 15
# inches of a picture at most, so that its text can be read on a phone, where pictures are 390 pixels wide; and CSS pixels for an inch where there is room
WIDEST, SHOWN = 5.6, 115
MOST_CURVES = 6
# priors on coefficients that a report compares with the posterior's own
OTHER_SLABS: tuple[Slab, ...] = (
    GPrior("n"), GPrior("bric"), HyperGN(), BIC(), IndependentNormal(1.0), IndependentNormal("estimate"),
)  # fmt: skip
# most kept models that are given the weights of other priors, which takes a second or two
MOST_REWEIGHTED = 40_000
# per inch, of what is drawn as pixels: thin lines and faint points, behind what is drawn as vectors
PIXELS = 80


@dataclass(frozen=True)
class Picture:
    """A plot with its title, caption and alternative text."""

    title: str
    caption: str
    alt: str  # alternative text for readers who cannot see the picture
    source: str  # data: address
    width: int  # in CSS pixels


def results(posterior: Posterior) -> list[Picture]:
    """The plots of the results, except that of the inclusion probabilities (``report/chart.py``)."""
    error = "" if not posterior.mcse.any() else " Error bars are ± 2 Monte Carlo standard errors."
    known = posterior.sizes_mcse is not None and bool(np.isfinite(posterior.sizes_mcse).any())
    of_sizes = error if known else ""
    of_models = (
        ""
        if posterior.models.mcse is None
        else " Grey bars, drawn if the errors are large enough to be seen, are the probabilities of the models with their errors."
    )
    wanted: Wanted = [
        (
            "Size of the model",
            f"How many variables are in the model. If the posterior looks like the prior, the data say little about the size.{of_sizes}",
            f"Posterior and prior distribution of the number of variables in the model; the posterior mean is "
            f"{posterior.mean_size:.2f}.",
            plots.plot_model_size,
            {},
        ),
        (
            "The best models",
            "Each column is a model, the best one on the left; coloured cells are the variables in it. A variable whose row is "
            f"filled from end to end is in every good model; variables that fill the gaps in each other's rows stand in for one another.{of_models}",
            f"The variables in the best models. The best one contains {_best(posterior)}.",
            plots.plot_models,
            {"variables": 20},
        ),
        (
            "Coefficients",
            f"The spike is the probability that the coefficient is 0, and the curve shows where the coefficient lies otherwise. {_scale_words(posterior)}",
            "Densities of the standardised coefficients of the most probable variables, with a spike at 0.",
            plots.plot_coefficients,
            {},
        ),
        (
            "Correlation among the most probable variables",
            "Variables that are strongly correlated share their probability: a variable with a low probability may be "
            "relevant if another one carries the same information. Sets of stand-ins are outlined.",
            _correlated(posterior),
            plots.plot_correlation,
            {"top": CORRELATED},
        ),
        (
            "Under other priors",
            "The same models, weighted as under other priors. If the points of a variable are far apart, its probability depends on the prior. Your own "
            "priors are marked by a ring and a line. Hollow points are not reliable, because other models matter under these priors; compare_priors() "
            "makes new runs for them.",
            "Inclusion probabilities of the most probable variables under several priors on coefficients and on models.",
            _other_priors,
            {},
        ),
        *effects(posterior),
        *_predictions(posterior),
    ]
    return list(_draw(posterior, wanted))


def curves(pooled: PooledPosterior) -> list[Picture]:
    """The plots of effects that may be curved, for imputed data."""
    return list(_draw(pooled, effects(pooled)))


def effects(posterior: Posterior | PooledPosterior) -> Wanted:
    """The plots of effects that may be curved, the most probable first."""
    pip = dict(zip(posterior.problem.names, posterior.pip.tolist()))
    names = sorted(splines_of(posterior.problem), key=lambda name: -pip.get(name, 1.0))[:MOST_CURVES]
    return [
        (
            f"Effect of {name}",
            "The line is the mean over models, relative to an average value; the band contains the effect with 90 % probability at each place. "
            "Marks at the bottom are the knots of the spline.",
            f"The effect of {name} along its values, with a probability of {pip.get(curve_of(name), 1.0):.2f} that it is curved.",
            plots.plot_effect,
            {"name": name},
        )
        for name in names
    ]


def _other_priors(posterior: Posterior) -> "Axes":
    """How inclusion probabilities depend on the kinds of priors, by new weights alone."""
    problem = posterior.problem
    if posterior.condition is not None or not isinstance(problem.family, Gaussian):
        raise NothingToDrawError("other priors need a Gaussian response and a posterior without a condition")
    if len(posterior.kept) > MOST_REWEIGHTED or posterior.kept.start[-1] == 0:
        raise NothingToDrawError("there are too many models to be given new weights, or only the null model")
    slabs = []
    for slab in OTHER_SLABS:
        try:
            problem.with_priors(slab=slab)
        except WhichvarsError:  # it cannot be combined with the noise
            continue
        slabs.append(slab)
    return plots.plot_priors(compare_priors(posterior, slabs, runs="none"))


def _scale_words(posterior: Posterior) -> str:
    """What a coefficient in the picture means."""
    family = posterior.problem.family
    if isinstance(family, Gaussian):
        return (
            "Coefficients are standardised, so that they can be compared: they are in standard deviations of the response for one standard "
            "deviation of the variable."
        )
    of = f" of {outcome(posterior.problem)}" if outcome(posterior.problem) else ""
    change = f"Coefficients are changes of the {family.link}{of} for one standard deviation of the variable"
    if family.ratio is None:
        return f"{change}."
    return f"{change}: 0.69 doubles the {'odds' if of else 'rate'}, −0.69 halves {'them' if of else 'it'}."


def _predictions(posterior: Posterior) -> Wanted:
    """The plots of how good predicted probabilities and rates are."""
    if is_linear(posterior.problem.family):
        return []
    scores = posterior.scores()
    honest = "Every row is predicted from all the others."
    wanted: Wanted = []
    if "auc" in scores:
        wanted.append(
            (
                "How well the two values are told apart",
                f"The receiver operating characteristic. {honest} Of two rows with different responses, the right one has the larger "
                f"predicted probability with a probability of {scores['auc']:.2f}, the area under the curve; guessing would have one "
                f"half. The mean squared error of the probabilities (Brier score) is {scores['brier']:.3f}.",
                f"Receiver operating characteristic with an area of {scores['auc']:.3f}.",
                plots.plot_roc,
                {},
            )
        )
    pearson = posterior.pearson
    spread = ""
    if pearson is not None:
        spread = (
            f" Pearson's statistic over its degrees of freedom is {pearson.ratio:.2f}"
            f"{': more than this family allows.' if pearson.over else ', near the 1 that this family expects.'}"
        )
    what = "probabilities" if "auc" in scores else "rates"
    table = posterior.calibration(bins=5)
    pairs = ", ".join(f"{a:.2f} and {b:.2f}" for a, b in zip(table["predicted"], table["observed"]))
    wanted.append(
        (
            f"Are the predicted {what} right?",
            f"Rows are put into bins by their prediction. {honest} Points on the line are right on average. If predictions were right, each point "
            f"would lie on its bar with a probability of 90 %.{spread}",
            f"Predicted and observed means by fifths of the rows: {pairs}.",
            plots.plot_calibration,
            {},
        )
    )
    if not posterior.problem.classes:
        inside = float(posterior.interval_calibration(levels=0.9)["observed"].iloc[0])
        wanted.append(
            (
                "Are whole predictive distributions right?",
                f"The predictive probability of a smaller response, randomised between whole numbers. {honest} Bars of equal height are right; high ends say that responses "
                f"vary more than the family allows. {100 * inside:.0f} % of the responses are within their 90 % intervals.",
                f"Histogram of probability integral transforms; {100 * inside:.0f} % of the responses are within their 90 % intervals.",
                plots.plot_pit,
                {},
            )
        )
    return wanted


def trust(posterior: Posterior) -> list[Picture]:
    """The plots of the diagnostics."""
    wanted: Wanted = [
        (
            "Agreement of the replicates",
            "The probability of every variable in each of the independent runs, against the mean of all runs. Runs agree if their points are on the line.",
            "Inclusion probabilities by replicate against their mean.",
            plots.plot_agreement,
            {},
        ),
        (
            "Model size along the run",
            "All replicates should vary around the same level, without a trend.",
            "Number of variables in the model along the run, by replicate.",
            plots.plot_trace,
            {"show": "size"},
        ),
        (
            "Log posterior along the run",
            "The same for the log posterior density of the model.",
            "Log posterior along the run, by replicate.",
            plots.plot_trace,
            {"show": "log_posterior"},
        ),
        (
            "Temperature ladder",
            "Some exchanges should be accepted and some rejected.",
            "Inverse temperatures, and the share of exchanges that succeeded or of particles that are distinct.",
            plots.plot_ladder,
            {},
        ),
        (
            "Changes made at once",
            "How many variables the sampler proposed to change in one iteration, and how often that was accepted.",
            "Shares of iterations by number of variables changed.",
            plots.plot_changes,
            {},
        ),
        (
            "What the sampler learned",
            "The learned odds of adding a variable against its posterior odds: in theory they converge to the line.",
            "Learned odds against posterior odds.",
            plots.plot_adaptation,
            {},
        ),
        (
            "How the sampler learned",
            "The probabilities of proposing to add and to delete the most probable variables along the run, a line for each replicate.",
            "Adding and deleting probabilities of the most probable variables along the run.",
            plots.plot_adaptation,
            {"show": "along_run"},
        ),
        (
            "Mutation rate along the run",
            "Share of the iterations that changed the model.",
            "Mutation rate along the run, by replicate.",
            plots.plot_adaptation,
            {"show": "mutation_rate"},
        ),
    ]
    return list(_draw(posterior, wanted))


def residuals(check: ResidualCheck) -> list[Picture]:
    """The plots that show whether the model fits."""
    wanted: Wanted = [
        (
            "Residuals and fitted values",
            "Each point is a row. The running mean should stay near 0; if it bends, an effect is curved. The dashed lines should stay at the same "
            "distance from it; if they open like a funnel, the variance is not constant.",
            f"Standardised residuals against fitted values, with {len(check.outliers)} outliers; the rank correlation of fitted values and sizes of "
            f"residuals is {check.spread_trend:.2f}.",
            plots.plot_residuals,
            {"show": "fitted"},
        ),
        (
            "Are the residuals normal?",
            "Sorted residuals against quantiles of the normal distribution. If points are outside the band, the residuals are skewed, or their tails are "
            "heavier or lighter than the model assumes.",
            f"Quantiles of the residuals, with skewness {check.skewness:.2f} and excess kurtosis {check.kurtosis:.2f}.",
            plots.plot_residuals,
            {"show": "quantiles"},
        ),
        (
            "Responses as the model would produce them",
            "The line is the share of the responses below each value. The bands show where this share lies if responses are drawn from the fitted model.",
            "The distribution of the observed responses over those of responses drawn from the model.",
            plots.plot_residuals,
            {"show": "predictive"},
        ),
    ]
    return list(_draw(check, wanted))


def agreement(pooled: PooledPosterior) -> list[Picture]:
    """The plot of how far the imputations agree."""
    wanted: Wanted = [
        (
            "Agreement of the imputations",
            "The probability of every variable in each of the completed tables, against the mean of all. If points are far from the line, the "
            "missing values matter for their variable.",
            "Inclusion probabilities by imputation against their mean.",
            plots.plot_agreement,
            {},
        )
    ]
    return list(_draw(pooled, wanted))


def _draw(
    posterior: Posterior | PooledPosterior | ResidualCheck,
    wanted: Wanted,
) -> Iterator[Picture]:
    """Draw the plots for which the posterior has data."""
    with _own_style():
        for title, caption, alt, plot, settings in wanted:
            try:
                source, width = picture(plot, posterior, **settings)
            except NothingToDrawError:
                continue
            yield Picture(title, caption, alt, source, width)


@contextmanager
def _own_style() -> Iterator[None]:
    """Make a report look the same whatever style the user has set."""
    require("matplotlib", "plots")
    import matplotlib

    default: dict[Any, Any] = {
        name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")
    }
    with off_screen(WIDEST), matplotlib.rc_context(default | SETTINGS), warnings.catch_warnings():
        # characters that are missing in this machine's font are drawn by the reader's machine
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


def picture(
    plot: Callable[..., "Axes"], posterior: Posterior | PooledPosterior | ResidualCheck, **settings: Any
) -> tuple[str, int]:
    """A plot as the data: address of an SVG picture, and its width in CSS pixels."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    figure = plot(posterior, **settings).get_figure(root=True)
    assert figure is not None
    fix_layout(figure)
    figure.dpi = PIXELS
    out = io.BytesIO()
    # savefig would draw everything twice, the first time only for the layout
    FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})
    # as a setting, matplotlib would search for every font at every word
    code = base64.b64encode(out.getvalue().replace(*FONTS)).decode("ascii")
    return f"data:image/svg+xml;base64,{code}", round(SHOWN * float(figure.get_size_inches()[0]))


def _best(posterior: Posterior) -> str:
    names = [posterior.problem.names[j] for j in sorted(posterior.models.members[0])]
    return ", ".join(names) if names else "no variables"


def _correlated(posterior: Posterior) -> str:
    chosen = most_probable(posterior)[:CORRELATED]
    names = [posterior.problem.names[j] for j in chosen]
    matrix = np.tril(correlations(posterior.problem, chosen), -1)
    rows, columns = np.nonzero(np.abs(matrix) >= 0.8)
    order = np.argsort(-np.abs(matrix[rows, columns]))[:8]
    pairs = [f"{names[columns[i]]} and {names[rows[i]]} {matrix[rows[i], columns[i]]:.2f}" for i in order]
    strong = f" Strongest: {', '.join(pairs)}." if pairs else " None is as strong as 0.8."
    return f"Correlations among the {len(names)} most probable variables.{strong}"
