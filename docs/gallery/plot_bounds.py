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
# Intervals are for the mean of the *clipped* population, and say so. With an upper bound of 5 that is another
# number than the mean of all visits, however many rows there are; from 50 on the two hardly differ, and what
# grows is the noise.

fits = [ClippedMean(epsilon=0.2, delta=1e-6, bounds=(0, end), random_state=0).fit(visits) for end in ends]
means = np.array([fit.mean_[0] for fit in fits])
intervals = [fit.confidence_interval() for fit in fits]
low, high = (np.array([interval[i][0] for interval in intervals]) for i in (0, 1))

figure = Figure(figsize=(6.4, 3.8), layout="constrained")
axis = figure.subplots()
axis.errorbar(
    ends, means, [means - low, high - means], fmt="o", ms=4, capsize=3, color="#1f5fa8", label="private"
)
axis.axhline(visits["mdvis"].mean(), color="#b03a2e", lw=1, ls="--", label="mean of the rows, not private")
axis.set_xscale("log")
axis.set_xticks(ends, [str(end) for end in ends])
axis.minorticks_off()
axis.set(xlabel="upper bound that was declared", ylabel="doctor visits a year", ylim=(0, 6))
axis.set_title("Private mean of doctor visits by the declared bound, ε = 0.2", fontsize=10)
axis.legend(frameon=False, fontsize=8)
axis.grid(alpha=0.25)

# %%
# The tightest one. The table says what its interval is for, and what clipped rows cannot tell:

print(fits[0].summary())

# %%
# Choosing the bound from such a picture would be looking at the rows: bounds come from what is known without
# them (:doc:`how </docs/choosing-privacy>`).
