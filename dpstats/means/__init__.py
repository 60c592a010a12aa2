"""Private means of rows."""

from dpstats.means.adaptive import AdaptiveMean
from dpstats.means.clipped import ClippedMean
from dpstats.means.continual import ContinualMeans, MeanPath, StepMean
from dpstats.means.estimator import CompleteCases, clipping_radius, required_samples
from dpstats.means.private_bounds import Bounds, PrivateBounds, private_bounds
from dpstats.means.sparse import SparseMean
from dpstats.means.variance import PrivateVariance
from dpstats.mechanisms.unknown_bounds import UnknownBounds

__all__ = ["AdaptiveMean", "Bounds", "ClippedMean", "CompleteCases", "ContinualMeans", "MeanPath", "PrivateBounds"]
__all__ += ["PrivateVariance", "SparseMean", "StepMean", "UnknownBounds"]
__all__ += ["clipping_radius", "private_bounds", "required_samples"]


def __dir__() -> list[str]:
    return sorted(__all__)
