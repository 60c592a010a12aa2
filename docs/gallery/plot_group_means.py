"""
Do people who pay go to the doctor less?
========================================

The RAND Health Insurance Experiment assigned families to plans that pay all, a half, or little of their
bills. One release of :class:`~dpstats.groups.GroupMeans` has the mean of every plan, all differences, and a
test whether there is any.
"""

import numpy as np
from statsmodels.datasets import randhie

from dpstats.groups import GroupMeans

data = randhie.load_pandas().data  # 20,190 person-years
data["plan"] = np.rint(np.expm1(data["lncoins"])).astype(int)  # percent that the family pays

# %%
# Declared from public knowledge: the five plans of the experiment, and that nobody sees a doctor more often
# than once a week. How many rows are in each group is private, and released with noise.

groups = GroupMeans(groups=[0, 25, 50, 95, 100], by="plan", bounds={"mdvis": (0, 52)}, random_state=0)
groups.fit(data)

axis = groups.plot()
axis.figure.suptitle("Doctor visits a year by the percent that a family pays, ε = 1", fontsize=10)

# %%
# The groups are of very different sizes, and intervals show it: they include sampling error, the noise of
# the sum, and the noise of the size. All queries below use the same release, without additional cost.

print(groups.pairwise().summary())
print(groups.anova().summary())

# %%
# The rows are person-years, and a person has up to five. For guarantees that protect people, and other
# answers from this release, see the guide on :doc:`groups </docs/groups>`.
