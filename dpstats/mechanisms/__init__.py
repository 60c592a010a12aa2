"""The primitive releases: exact noise on a public lattice."""

from dpstats.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from dpstats.mechanisms.histogram import Count, CountEstimate, Histogram
from dpstats.mechanisms.randomized_response import ProportionEstimate, RandomizedResponse
from dpstats.mechanisms.sampling import ExactNoise, SimulatedNoise, noise_source

__all__ = [
    "Count",
    "CountEstimate",
    "ExactNoise",
    "GaussianMechanism",
    "Histogram",
    "LaplaceMechanism",
    "ProportionEstimate",
    "RandomizedResponse",
    "SimulatedNoise",
    "noise_source",
]
