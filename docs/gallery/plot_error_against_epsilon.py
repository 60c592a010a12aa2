"""
Does the error fall as the theory says?
=======================================

A study runs an estimator on a grid of public parameters. Here the squared error of a private mean is compared
with the formula: a sampling error that epsilon does not change, and the error of the noise.
"""

from dpstats.means import ClippedMean
from dpstats.simulation import Rademacher, Study, fit_rate
from dpstats.simulation.study_report import plot_risk

# %%
# Signs in 16 columns, 400 rows, and epsilon from 0.03 to 3. The loss uses the released numbers, before
# they are clipped to their bounds.

grid = {"n": [400], "d": [16], "epsilon": [0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0]}
study = Study(Rademacher(), ClippedMean(clip=1.0), grid, replications=100, loss="released_squared_error", seed=0)
results = study.run()

# %%
# The formula for Laplace noise: 16 columns of variance 1/n, and sensitivity 2 d/n in the l1 norm.

terms = {
    "sampling": lambda cell: cell["d"] / cell["n"],
    "privacy": lambda cell: 8 * cell["d"] ** 3 / (cell["n"] * cell["epsilon"]) ** 2,
}
figure = plot_risk(results, "epsilon", terms=terms, title="Squared error of a private mean against ε")

# %%
# Where the noise dominates the error falls as epsilon to the power -2. The verdict compares the fitted
# exponent, with its interval, with that.

rate = fit_rate(results, "epsilon", theory=-2, terms=terms, term="privacy", tolerance=0.1)
print(rate.summary())

# %%
# The same machinery reproduces the rates of the :doc:`source texts </docs/sources>`, exponent by exponent: :doc:`rates
# </validation/results/rates>`.
