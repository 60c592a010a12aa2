"""
What does a guarantee promise, and what do many of them together?
=================================================================

A guarantee is a bound on every test that tries to tell whether one row is in the data: the smallest possible
type II error at each type I error. The closer to the diagonal, the less can be told.
"""

from dpstats.means import ClippedMean
from dpstats.plots import plot_tradeoff
from dpstats.privacy import PrivacyGuarantee, basic_composition, compose, optimal_composition_epsilon

# %%
# Pure guarantees consist of two straight lines. Gaussian noise that is calibrated to (1, 1e-6) promises
# more than that pair of numbers: its plan has a separate curve, which is above.

plan = ClippedMean(clip=1.0, std=None, epsilon=1.0, delta=1e-6).plan(1000, 1)
curves = {
    "pure, ε = 1": PrivacyGuarantee(1.0),
    "pure, ε = 0.25": PrivacyGuarantee(0.25),
    "Gaussian noise for (1, 1e-6)": plan,
}
alone = plot_tradeoff(curves, title="One release: how well any test can tell a row")

# %%
# Ten releases of ε = 0.1. Adding epsilons up is right and pessimistic; optimal composition at δ = 1e-6 is
# the exact cost of ten such guarantees, for any releases. For so few, the gain is almost nothing at that δ,
# and a quarter at a larger one.

ten = [PrivacyGuarantee(0.1)] * 10
print("added up:              ", basic_composition(ten))
print(f"optimal, delta = 1e-6: epsilon = {optimal_composition_epsilon(0.1, 10, 1e-6):.4f}")
print(f"optimal, delta = 1e-3: epsilon = {optimal_composition_epsilon(0.1, 10, 1e-3):.4f}")

together = plot_tradeoff(
    {"ten of ε = 0.1, added up": basic_composition(ten), "ten of ε = 0.1, at δ = 1e-3": compose(ten, delta=1e-3)},
    title="Ten releases together",
)
