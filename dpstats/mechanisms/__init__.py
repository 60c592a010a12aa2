"""The primitive releases: exact noise on a public lattice."""

from dpstats.errors import Exhausted
from dpstats.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from dpstats.mechanisms.continual_counts import ContinualCounts, StepEstimate
from dpstats.mechanisms.count_path import CountPath
from dpstats.mechanisms.histogram import Count, CountEstimate, DensityEstimate, FoundEstimate, Histogram
from dpstats.mechanisms.randomized_response import ProportionEstimate, RandomizedResponse
from dpstats.mechanisms.selection import ExponentialMechanism, NoisyTopK, PermuteAndFlip, ReportNoisyMax
from dpstats.mechanisms.sparse_vector import AboveThreshold, NumericSparseVector, SparseVector

__all__ = ["AboveThreshold", "ContinualCounts", "Count", "CountEstimate", "CountPath", "DensityEstimate", "Exhausted"]
__all__ += ["ExponentialMechanism", "FoundEstimate", "GaussianMechanism", "Histogram", "LaplaceMechanism", "NoisyTopK"]
__all__ += ["NumericSparseVector", "PermuteAndFlip", "ProportionEstimate", "RandomizedResponse", "ReportNoisyMax"]
__all__ += ["SparseVector", "StepEstimate"]


def __dir__() -> list[str]:
    return sorted(__all__)
