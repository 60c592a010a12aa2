"""Private means of rows."""

from dpstats.means.clipped import ClippedMean
from dpstats.means.clipping import clipping_radius

__all__ = ["ClippedMean", "clipping_radius"]
