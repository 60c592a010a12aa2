"""How far a statistic can move: at the data, near them, and smoothed over all data."""

from dpstats.sensitivity.elastic import ElasticSensitivity
from dpstats.sensitivity.smooth import (
    SmoothNoise,
    global_sensitivity,
    local_sensitivity,
    maximum_smooth_sensitivity,
    median_smooth_sensitivity,
    minimum_smooth_sensitivity,
    quantile_smooth_sensitivity,
    smooth_noise,
    smooth_sensitivity,
    trimmed_mean_smooth_sensitivity,
)

__all__ = ["ElasticSensitivity", "SmoothNoise"]
__all__ += ["global_sensitivity", "local_sensitivity", "maximum_smooth_sensitivity", "median_smooth_sensitivity"]
__all__ += ["minimum_smooth_sensitivity", "quantile_smooth_sensitivity", "smooth_noise", "smooth_sensitivity"]
__all__ += ["trimmed_mean_smooth_sensitivity"]


def __dir__() -> list[str]:
    return sorted(__all__)
