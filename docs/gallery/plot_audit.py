"""
Does this code really add enough noise?
=======================================

An audit attacks a release on two neighboring datasets and reports a lower bound on its epsilon. It needs no
knowledge of the code. Here it is given a right mean and a common mistake.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from dpstats.auditing import audit
from dpstats.plots import plot_audit

radius = load_breast_cancer().data[:, 0]  # mean radius of 569 tumours
low, high = 0.0, 40.0
n, epsilon = radius.size, 1.0


def right(rows, rng, size):
    """Clip, average, and add noise for the most that one row can move the average."""
    mean = np.clip(rows, low, high).mean()
    return mean + rng.laplace(scale=(high - low) / (n * epsilon), size=size)


def wrong(rows, rng, size):
    """Return a mean with noise for the range of these rows, which looks reasonable and is not private."""
    mean = np.clip(rows, low, high).mean()
    return mean + rng.laplace(scale=(rows.max() - rows.min()) / (n * epsilon), size=size)


# %%
# The neighbor replaces one row by the farthest value that the bounds allow. The guarantee covers this case.

neighbor = radius.copy()
neighbor[radius.argmin()] = high

options = {"epsilon": epsilon, "batched": True, "n_trials": 50_000, "random_state": 0}
first = audit(right, radius, neighbor, **options)
print(f"at least {first.epsilon_lower:.3f}, claimed {epsilon:g}; violated: {first.violated}")
kept = plot_audit(first, title="Noise for the bounds")

# %%
# The mistake is found, and so is where: the red points lie below what the claim allows.

second = audit(wrong, radius, neighbor, **options)
print(f"at least {second.epsilon_lower:.3f}, claimed {epsilon:g}; violated: {second.violated}")
broken = plot_audit(second, title="Noise for the range of the rows")

# %%
# A bound below the claim is consistent with it. A bound above it proves that the claim is wrong. The
# guide on :doc:`auditing </docs/auditing>` describes the limits of an audit.
