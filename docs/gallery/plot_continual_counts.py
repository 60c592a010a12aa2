"""
How can a count be published every day?
=======================================

How many visits were there since January, and in the last four weeks?
:class:`~dpstats.mechanisms.ContinualCounts` answers every day for a year. All answers together cost one charge.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpstats.mechanisms import ContinualCounts, GaussianMechanism

rng = np.random.default_rng(0)
days = np.arange(365)
visits = rng.poisson(12 + 6 * np.sin(days / 30) + 10 * (days > 250))

# %%
# One step a day. Each answer is the total since the first day, with the standard deviation of its noise.

counts = ContinualCounts(horizon=365, epsilon=1.0, delta=1e-6, random_state=0)
answers = counts.update_many(visits)
print(counts.path().summary())

# %%
# A binary tree, the usual method, has three times the noise after a year. New noise for every day has six times.

one = GaussianMechanism(1, epsilon=1.0, delta=1e-6).sigma
nodes = np.array([bin(day + 1).count("1") for day in days])
levels = int(np.ceil(np.log2(days.size))) + 1

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6))
left.plot(days + 1, one * np.sqrt(days.size) * np.ones(365), color="0.6", label="a new release every day")
left.plot(days + 1, one * np.sqrt(levels * nodes), color="#9a6a00", lw=0.7, label="binary tree")
left.plot(days + 1, counts.noise_std(), color="#1f5fa8", label="ContinualCounts")
left.set_title("Noise of a total")
left.set_xlabel("day")
left.set_ylabel("noise of the total (standard deviation)")
left.set_ylim(0)
left.legend(fontsize=8, frameon=False)
left.grid(alpha=0.25)

# %%
# Windows are differences of totals. The band covers all windows of the year together, and shows the rise after day 250.

counts.path().plot(right, window=28, label="private")
right.plot(days[27:] + 1, np.convolve(visits, np.ones(28), "valid"), color="black", lw=0.8, label="before noise")
right.set_title("Visits in 28 days, with a band")
right.set_xlabel("day")
right.set_ylabel("visits in 28 days")
right.legend(fontsize=8, frameon=False, loc="upper left")
figure.tight_layout()

# %%
# The guide on :doc:`a count every day </docs/continual-counts>` has jobs that are killed and run again, and several
# categories.
