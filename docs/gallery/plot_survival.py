"""
How long until the event, in two arms of a trial?
=================================================

A simulated trial of 3,000 subjects. Some leave early. One release of
:class:`~dpstats.survival.PrivateSurvival` has the curves of both arms with bands that hold for all times
together, medians, restricted means and a log-rank test.
"""

import numpy as np

from dpstats.survival import PrivateSurvival

rng = np.random.default_rng(0)
arm = np.where(rng.random(3000) < 0.5, "new", "old")
week = rng.weibull(1.3, 3000) * np.where(arm == "new", 50.0, 35.0)
left = rng.exponential(120.0, 3000)

# %%
# The horizon and the arms are public. How many subjects are in each arm is private, and so is who had the event.

model = PrivateSurvival(horizon=52, bins=13, groups=["old", "new"], epsilon=1.0, random_state=0)
model.fit(np.minimum(week, left), week <= left, arm)

axes = model.plot()

# %%
# The numbers at risk below the curves have noise, which is stated. All queries use the same release.

print(model.summary())
print(model.rmst_difference("new", "old").summary())
print(model.log_rank().summary())

# %%
# Competing causes, tests with more power and plans are in the guide on
# :doc:`survival </docs/survival>`.
