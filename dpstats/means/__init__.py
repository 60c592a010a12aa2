"""Private means of rows."""

from dpstats.means.clipped import ClippedMean, clipping_radius

__all__ = ["ClippedMean", "clipping_radius"]
