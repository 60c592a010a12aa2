"""A figure of the answers to a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.errors import attempt, refuse, refuse_data
from dpstats.figures import ESTIMATE, REFERENCE, new_figure
from dpstats.queries.answers import WorkloadAnswers
from dpstats.report import picture_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_answers(
    answers: WorkloadAnswers, *, reference: Any = None, confidence_level: float = 0.95
) -> Figure:
    """Draw the answers to a workload with their intervals, and the errors for other values of epsilon.

    Parameters
    ----------
    answers : WorkloadAnswers
        Fitted estimator.
    reference : array of shape (n_queries,), optional
        Exact answers as proportions, to compare with. Use it for public data only. Default: the unbiased answers.
    confidence_level : float, default=0.95
        Level of each interval.

    Returns
    -------
    matplotlib.figure.Figure
        Left: differences between point answers and reference, with the intervals of the unbiased answers. Right: root
        mean squared error of unbiased answers against epsilon, from plans only, and an estimate for uniform answers if
        it is known.
    """
    exact = attempt(
        lambda: np.asarray(answers.linear_ if reference is None else reference, dtype=np.float64), Exception
    )
    if exact is None:
        raise refuse_data("reference", allowed="numbers, one for each query")
    if exact.shape != answers.linear_.shape:
        raise refuse(
            "reference",
            got=f"shape {exact.shape}",
            allowed=f"have an answer for each query {answers.linear_.shape}",
        )
    interval = answers.confidence_interval(confidence_level)
    low, high = np.asarray(interval.low), np.asarray(interval.high)
    figure = new_figure(figsize=(9.2, 4.2))
    left, right = figure.subplots(1, 2)
    label = f"{100 * confidence_level:g}% intervals"
    left.vlines(exact, low - exact, high - exact, color=ESTIMATE, alpha=0.3, lw=1, label=label)
    left.plot(exact, answers.answers_ - exact, ".", ms=4, color=ESTIMATE, label="point answers")
    left.axhline(0.0, color=REFERENCE, lw=1, ls="--")
    word = "unbiased" if reference is None else "exact"
    left.set_xlabel(f"{word} answer, share of the rows")
    left.set_ylabel(f"private answer less the {word} one")
    left.legend(fontsize=8, frameon=False)
    n, own = answers.plan_.n_samples, float(answers.epsilon)
    epsilons = own * np.geomspace(0.1, 10, 7)
    params = answers.get_params(deep=False)
    plans = [type(answers)(**{**params, "epsilon": float(e), "budget": None}).plan(n) for e in epsilons]
    errors = [float(np.sqrt(np.mean(plan.noise_std**2))) for plan in plans]
    right.plot(epsilons, errors, color=ESTIMATE, label="unbiased answers")
    right.plot(own, errors[3], "o", color=ESTIMATE, label=f"epsilon = {own:g}, as released")
    if np.isfinite(answers.uniform_error_):
        right.axhline(answers.uniform_error_, color=REFERENCE, lw=1, ls="--", label="uniform answers, about")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("epsilon")
    right.set_ylabel("root mean squared error, share of the rows")
    right.legend(fontsize=8, frameon=False)
    for axis in (left, right):
        axis.grid(alpha=0.25)
    return figure


@picture_of.register
def _of_answers(answers: WorkloadAnswers) -> tuple[str, Any]:
    words = (
        "Left, how far the point answers are from the unbiased ones, with 95% intervals; right, the error that other "
        "budgets would buy, from plans alone."
    )
    return words, plot_answers(answers)
