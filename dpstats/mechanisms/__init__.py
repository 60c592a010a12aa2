"""The primitive releases: exact noise on a public lattice."""

from dpstats.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from dpstats.mechanisms.sampling import ExactNoise, SimulatedNoise, noise_source

__all__ = ["ExactNoise", "GaussianMechanism", "LaplaceMechanism", "SimulatedNoise", "noise_source"]
