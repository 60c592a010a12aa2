"""The primitive releases: exact noise on a public lattice."""

from dpstats.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from dpstats.mechanisms.histogram import Count, CountEstimate, Histogram
from dpstats.mechanisms.randomized_response import ProportionEstimate, RandomizedResponse
from dpstats.mechanisms.sampling import ExactNoise, SimulatedNoise, noise_source
from dpstats.mechanisms.selection import ExponentialMechanism, NoisyTopK, PermuteAndFlip, ReportNoisyMax

__all__ = [
    "Count",
    "CountEstimate",
    "ExactNoise",
    "ExponentialMechanism",
    "GaussianMechanism",
    "Histogram",
    "LaplaceMechanism",
    "NoisyTopK",
    "PermuteAndFlip",
    "ProportionEstimate",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SimulatedNoise",
    "noise_source",
]
