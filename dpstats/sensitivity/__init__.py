"""How far a statistic can move: at the data, near them, and smoothed over all data."""

from dpstats.sensitivity.smooth import median_smooth_sensitivity

__all__ = ["median_smooth_sensitivity"]
