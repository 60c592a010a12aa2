"""Estimated proportions from unbiased answers with Gaussian noise, for these rows or for their population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpstats.data.parameters import check_choice
from dpstats.error_distributions import NormalErrors
from dpstats.inference import Estimates
from dpstats.noisy_counts import CountNoise
from dpstats.queries.linear import Numbers
from dpstats.tables.shares import CountShare, ShareErrors
from dpstats.together import BONFERRONI, SIDAK


def check_estimand(estimand: Any) -> str:
    """Return the estimand "data" or "population", or raise an error."""
    return check_choice("estimand", estimand, ["data", "population"])


def share_estimates(
    answers: Numbers,
    noise_std: Numbers,
    n_samples: int,
    estimand: str = "data",
    *,
    shown: Numbers | None = None,
    names: Sequence[str] | None = None,
) -> Estimates:
    """Return proportions with the distribution of their errors.

    Parameters
    ----------
    answers, noise_std : arrays of shape (k,)
        Unbiased proportions of n rows, and the standard deviations of their Gaussian noise.
    n_samples : int
        Public number of rows.
    estimand : {"data", "population"}
        "data": the proportions of these rows, with noise as the only error. Simultaneous intervals use Sidak's level,
        which holds for normal noise with any correlation. "population": the proportions of a population. Counts are
        then binomial, and limits use the exact tails of binomial plus noise. Simultaneous intervals use Bonferroni's
        inequality.
    shown : array of shape (k,), optional
        More accurate point estimates. None: the answers.
    names : sequence of str, optional
        Names of the proportions.
    """
    estimate = answers if shown is None else shown
    errors: NormalErrors | ShareErrors
    if estimand == "data":
        errors, words, together = (
            NormalErrors(answers, noise_std, 0.0, 1.0),
            "the shares of these rows",
            SIDAK,
        )
        error = noise_std
    else:
        n = n_samples
        pairs = zip(answers.tolist(), noise_std.tolist(), strict=True)
        shares = [CountShare(n * x, n * x, n, CountNoise("gaussian", n * std)) for x, std in pairs]
        errors = ShareErrors(np.clip(estimate, 0.0, 1.0), shares)
        words, together = "the shares of the population that the rows are a sample of", BONFERRONI
        error = errors.standard_error
    return Estimates(
        estimate,
        error,
        tuple(map(str, range(answers.size)) if names is None else names),
        words,
        errors,
        header="share",
        together=together,
    )
