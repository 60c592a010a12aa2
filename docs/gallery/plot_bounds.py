"""
What do bounds cost that are too wide, or too tight?
====================================================

A mean is clipped to bounds that are declared without looking. Too tight ones move the estimate, and too wide
ones add noise. Both can be seen on 20,190 person-years, with doctor visits as the column.
"""

import numpy as np
from matplotlib.figure import Figure
from statsmodels.datasets import randhie

from dpstats.means import ClippedMean

visits = randhie.load_pandas().data[["mdvis"]]
ends = np.array([5, 10, 20, 50, 100, 200, 500, 1000])

# %%
# Intervals cover the mean of the *clipped* population, and the summary states it. With an upper bound of 5,
# that mean differs from the mean of all visits for any number of rows. From 50 on the two are almost equal, and
# the noise grows.

fits = [ClippedMean(epsilon=0.2, delta=1e-6, bounds=(0, end), random_state=0).fit(visits) for end in ends]
means = np.array([fit.mean_[0] for fit in fits])
intervals = [fit.confidence_interval() for fit in fits]
low, high = (np.array([interval[i][0] for interval in intervals]) for i in (0, 1))

figure = Figure(figsize=(6.4, 3.8), layout="constrained")
axis = figure.subplots()
axis.errorbar(ends, means, [means - low, high - means], fmt="o", ms=4, capsize=3, color="#1f5fa8", label="private")
axis.axhline(visits["mdvis"].mean(), color="#d9772b", lw=1, ls="--", label="mean of the rows, not private")
axis.set_xscale("log")
axis.set_xticks(ends, [str(end) for end in ends])
axis.minorticks_off()
axis.set(xlabel="upper bound that was declared", ylabel="doctor visits a year", ylim=(0, 6))
axis.set_title("Private mean of doctor visits by the declared bound, ε = 0.2", fontsize=10)
axis.legend(frameon=False, fontsize=8)
axis.grid(alpha=0.25)

# %%
# The tightest bound. The table states the estimand of its interval, and the limits of clipped rows:

print(fits[0].summary())

# %%
# Choosing the bound from such a figure would use the rows. Bounds come from public knowledge (:doc:`how
# </docs/choosing-privacy>`).
