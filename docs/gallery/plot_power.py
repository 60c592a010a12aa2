"""
How many rows does a private test need?
=======================================

The null distribution of an identity test is public, so its power can be simulated before there are any data. It
depends only on the number of rows and columns, the level, and epsilon.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import chi2, ncx2

from dpstats.identity import RowDistanceTest

n_features, level = 20, 0.05
test = RowDistanceTest(epsilon=1.0, level=level, n_calibration=199, random_state=0)

# %%
# Power against the distance of the mean from the null mean, for 200 rows of 20 columns. The power of the
# chi-square test without privacy is known in closed form.

n_samples = 200
distances = np.linspace(0.0, 1.0, 9)
power = [test.power(distance, n_samples, n_features, n_simulations=200) for distance in distances]
fine = np.linspace(0.0, 1.0, 201)
exact = ncx2.sf(chi2.isf(level, n_features), n_features, n_samples * np.maximum(fine, 1e-9) ** 2)

figure = Figure(figsize=(5.6, 3.8), layout="constrained")
axis = figure.subplots()
axis.plot(distances, power, "o-", color="#1f5fa8", label="private, ε = 1")
axis.plot(fine, exact, "--", color="#d9772b", label="chi-square test, not private")
axis.axhline(0.8, color="0.6", lw=1, ls=":")
axis.set(xlabel="distance of the mean, in standard deviations", ylabel="power", ylim=(0, 1.02))
axis.set_title(f"Power of the row distance test, {n_samples} rows of {n_features} columns", fontsize=10)
axis.legend(frameon=False, fontsize=8)
axis.grid(alpha=0.25)

# %%
# The other way round: the rows that are needed for power 0.8 at a given distance, by epsilon.

for epsilon in (0.25, 0.5, 1.0, 2.0):
    rows = RowDistanceTest(epsilon=epsilon, level=level, n_calibration=199, random_state=0).required_samples(
        0.75, n_features, n_simulations=200
    )
    print(f"epsilon = {epsilon:g}: about {rows} rows")
