"""
How are the values distributed, not only their mean?
====================================================

One release of :class:`~dpstats.quantiles.PrivateDistribution` has the whole cdf, with a band that covers the
cdf of the population everywhere at once, for independent rows with any distribution.
"""

from statsmodels.datasets import randhie

from dpstats.plots import plot_distribution
from dpstats.quantiles import PrivateDistribution

chronic = randhie.load_pandas().data["disea"]  # index of chronic diseases

# %%
# Bounds are public, and may be generous: a value beyond them counts as the nearer bound.

title = "Index of chronic diseases, 20,190 rows, ε = {}"
clear = PrivateDistribution(bounds=(0, 60), bins=512, epsilon=1.0, random_state=0).fit(chronic)
first = plot_distribution(clear, reference=chronic, title=title.format(1))

# %%
# With a twentieth of that epsilon the noise, and with it the band, is much wider:

rough = PrivateDistribution(bounds=(0, 60), bins=512, epsilon=0.05, random_state=0).fit(chronic)
second = plot_distribution(rough, reference=chronic, title=title.format(0.05))

for name, distribution in (("epsilon = 1", clear), ("epsilon = 0.05", rough)):
    low, high = distribution.confidence_interval(q=0.9)
    print(f"{name}: nine tenths are at or below {distribution.quantile(0.9):.1f} [{low:.1f}, {high:.1f}]")

# %%
# Every quantile, and every share between two values, can be read from the release at no more cost. For one
# or a few quantiles alone :class:`~dpstats.quantiles.PrivateQuantile` needs less privacy: the guide on
# :doc:`quantiles </docs/quantiles>` compares them.
