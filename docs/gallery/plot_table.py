"""
Are two attributes related?
===========================

A contingency table of declared levels, released once: a mosaic, proportions within groups with their
intervals, a test of independence and a difference of shares that all include the noise.
"""

import numpy as np
from statsmodels.datasets import randhie

from dpstats.plots import plot_table
from dpstats.tables import ContingencyTable

data = randhie.load_pandas().data
health = np.select([data[name] == 1 for name in ("hlthg", "hlthf", "hlthp")], ["good", "fair", "poor"], "excellent")
data = data.assign(health=health, visited=data["mdvis"] > 0)

# %%
# The levels are declared, never read off the rows. A row is in one cell, so a table of any size costs the
# same.

levels = {"health": ["excellent", "good", "fair", "poor"], "visited": [True, False]}
table = ContingencyTable(levels=levels, epsilon=0.3, random_state=0).fit(data)

figure = plot_table(table)
figure.suptitle("Health and whether a doctor was seen, ε = 0.3", fontsize=10)

# %%
# From the same release, at no more cost:

print(table.independence().summary())
effect = table.difference(("fair", "excellent"), True)
low, high = effect.confidence_interval()
print(f"{effect.estimand}: {effect.estimate:.3f} [{low:.3f}, {high:.3f}]")

# %%
# Why not a chi-square test of the noisy counts? Because noise looks like dependence: the guide on
# :doc:`tables </docs/tables>` shows it.
