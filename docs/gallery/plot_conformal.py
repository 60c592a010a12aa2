"""
Which outcomes are plausible for one new row?
=============================================

A model predicts how often a person visits a doctor. :class:`~dpstats.conformal.PrivateConformalRegressor` puts
intervals around its predictions, which cover nine of ten new people, for any model and any distribution.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from statsmodels.datasets import randhie

from dpstats.conformal import PrivateConformalRegressor

rows = randhie.load_pandas().data.sample(frac=1, random_state=0)
X, visits = rows.drop(columns="mdvis").to_numpy(), rows["mdvis"].to_numpy()
training, calibration, new = np.split(np.arange(len(X)), [6000, 8000])

# %%
# Fit the model on other rows than the calibration rows. ``training`` states their origin: here they are public. A
# second model predicts absolute residuals, so that intervals are wider for people whose visits vary more.

options = {"loss": "absolute_error", "max_iter": 60, "max_leaf_nodes": 8, "random_state": 0}
model = HistGradientBoostingRegressor(**options).fit(X[training], visits[training])
residuals = np.abs(visits[training] - model.predict(X[training]))
spread = HistGradientBoostingRegressor(**{**options, "loss": "poisson"}).fit(X[training], residuals)

# %%
# Two thousand other rows calibrate the intervals, at ε = 1. Half-widths lie within public bounds, and no one has fewer
# than 0 visits.

public = {"training": "public", "y_bounds": (0, 1000), "score_bounds": 100, "random_state": 0}
constant = PrivateConformalRegressor(model, **public).fit(X[calibration], visits[calibration])
scaled = PrivateConformalRegressor(model, scale_estimator=spread, **public).fit(X[calibration], visits[calibration])
print(scaled.summary())

# %%
# Both cover nine of ten new people. Coverage is an average over all people: intervals of one width cover too few of
# those whose visits vary most, and too many of the others.

width = spread.predict(X[new])
groups = np.array_split(np.argsort(width), 8)
at = [width[group].mean() for group in groups]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
for fit, label, color in ((constant, "one width", "#9a6a00"), (scaled, "width by a model", "#1f5fa8")):
    low, high = fit.predict_interval(X[new])
    inside = (low <= visits[new]) & (visits[new] <= high)
    print(f"{label}: {inside.mean():.3f} of {new.size:,} new people, {np.mean(high - low):.1f} visits wide on average")
    left.fill_between(
        at,
        [low[group].mean() for group in groups],
        [high[group].mean() for group in groups],
        alpha=0.3,
        color=color,
        label=label,
    )
    right.plot(at, [inside[group].mean() for group in groups], "o-", ms=4, color=color, label=label)
left.plot(at, [model.predict(X[new][group]).mean() for group in groups], color="black", lw=1, label="prediction")
left.set_title("Intervals of new people")
left.set_ylabel("visits in a year")
right.axhline(0.9, color="black", lw=0.8, ls=":")
right.set_title("Coverage")
right.set_ylabel("fraction of new people covered")
right.set_ylim(0.7, 1)
for axis in (left, right):
    axis.set_xlabel("predicted absolute residual")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False, loc="upper left" if axis is left else "lower left")
figure.tight_layout()

# %%
# Privacy costs about ten of the 2,000 calibration rows: the interval aims at a slightly higher residual than without
# privacy, so that its coverage holds with the noise. The guide on :doc:`conformal prediction </docs/conformal>` has
# sets of classes, coverage in each group, and models that are fitted on sensitive rows.
