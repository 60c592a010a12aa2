"""
Do two groups have the same distribution?
=========================================

Do people with a physical limitation see a doctor as often as others?
:class:`~dpstats.ranks.KolmogorovSmirnovTest` compares whole distributions, and releases one number. Its test counts the
noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import randhie

from dpstats.ranks import ks_test

people = randhie.load_pandas().data.sample(2000, random_state=0)
visits = people["mdvis"].to_numpy()
group = np.where(people["physlm"] > 0, "limited", "not limited")

# %%
# Labels are private, and so are the sizes of both groups. The statistic is the largest distance of the two
# distributions, in rows. A replaced row moves it by one at most.

result = ks_test(visits, group, groups=["limited", "not limited"], epsilon=1.0, random_state=0)
print(result.summary())

# %%
# Less ε is more noise, and the cutoff at the 5% level follows it.

epsilons = np.array([0.1, 0.2, 0.5, 1.0, 2.0])
tests = [
    ks_test(visits, group, groups=["limited", "not limited"], epsilon=epsilon, random_state=0) for epsilon in epsilons
]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6))
at = np.arange(25)
for name, color in (("limited", "#9a6a00"), ("not limited", "#1f5fa8")):
    left.step(at, [np.mean(visits[group == name] <= k) for k in at], where="post", color=color, label=name)
left.set_title("The two groups")
left.set_xlabel("visits to a doctor in a year")
left.set_ylabel("fraction of people, before noise")
left.legend(fontsize=8, frameon=False, loc="lower right")
statistic, noise, cutoff = (
    np.array([getattr(test, name) for test in tests]) for name in ("statistic", "noise_std", "cutoff")
)
right.errorbar(epsilons, statistic, yerr=noise, fmt="o", color="#1f5fa8", label="released, ± one noise sd")
right.plot(epsilons, cutoff, "k:", label="cutoff at 5%")
right.set_title("What is released")
right.set_xscale("log")
right.set_xlabel("ε")
right.set_ylabel("largest distance, in rows")
right.legend(fontsize=8, frameon=False, loc="lower right")
for axis in (left, right):
    axis.grid(alpha=0.25)
figure.tight_layout()

# %%
# For a column against a known distribution, use :func:`~dpstats.ranks.goodness_of_fit`.
