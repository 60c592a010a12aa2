"""
Is a private regression much less precise?
==========================================

Coefficients of a private regression at three values of epsilon, with intervals that include sampling error and noise,
and ordinary least squares on the same rows.
"""

import numpy as np
import statsmodels.api as sm
from statsmodels.datasets import randhie

from dpstats.inference.results import ConfidenceInterval
from dpstats.plots import plot_intervals_by_epsilon
from dpstats.regression import PrivateLinearRegression

data = randhie.load_pandas().data
visits = np.log1p(data["mdvis"].clip(upper=52))

# %%
# Bounds come from public knowledge: the definitions of the variables, and the rules of the experiment.

bounds = {
    "lncoins": (0, np.log(101)),  # log(percent that the family pays + 1)
    "idp": (0, 1),  # a deductible for each person
    "physlm": (0, 1),  # a physical limitation
    "disea": (0, 60),  # index of chronic diseases
    "hlthf": (0, 1),  # health rated fair
    "hlthp": (0, 1),  # health rated poor
}
X = data[list(bounds)]
epsilons = (0.3, 1.0, 3.0)
fits = [
    PrivateLinearRegression(x_bounds=bounds, y_bounds=(0, np.log(53)), epsilon=epsilon, random_state=0).fit(X, visits)
    for epsilon in epsilons
]
ols = sm.OLS(visits, sm.add_constant(X)).fit()

figure = plot_intervals_by_epsilon(
    list(bounds),
    epsilons,
    [fit.coef_ for fit in fits],
    [fit.confidence_interval() for fit in fits],
    reference=ols.params.to_numpy()[1:],
    reference_interval=ConfidenceInterval(*ols.conf_int().to_numpy()[1:].T),
    title="log(doctor visits + 1): private coefficients by ε, and the coefficients of OLS with their intervals",
)

# %%
# The rarest column, poor health, has the widest intervals, with and without privacy. The table of the
# middle fit:

print(fits[1].summary())

# %%
# The guide on :doc:`regression </docs/regression>` goes from bounds to interpretation.
