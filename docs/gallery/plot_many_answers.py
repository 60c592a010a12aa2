"""
How good are a hundred answers from one budget?
===============================================

All tables of two attributes of a survey, released together: what the error will be is known before any row is
read, and every answer has an interval.
"""

import numpy as np
from statsmodels.datasets import randhie

from dpstats.plots import plot_answers
from dpstats.queries import Bins, Domain, WorkloadAnswers

data = randhie.load_pandas().data
data = data.assign(deductible=data["idp"] == 1, limited=data["physlm"] > 0)
domain = Domain(
    {
        "mdvis": Bins([0, 1, 2, 4, 8, 16, 200]),
        "deductible": [True, False],
        "limited": [True, False],
        "disea": Bins([0, 7, 11, 16, 100]),
    }
)

# %%
# The cost and the error of the release, from public facts alone:

answers = WorkloadAnswers(domain=domain, workload=2, epsilon=0.5, delta=1e-6, random_state=0)
print(answers.plan(len(data)))

# %%
# The data are public here, so the answers can be drawn against the exact ones.

answers.fit(data)
exact = answers.queries_.answers(domain.histogram(data)) / len(data)
figure = plot_answers(answers, reference=exact)
figure.suptitle("Shares of all tables of two attributes, ε = 0.5", fontsize=10)

low, high = answers.confidence_interval()
print(f"intervals that hold the exact share: {np.mean((low <= exact) & (exact <= high)):.3f}")

# %%
# The guide on :doc:`many answers </docs/queries>` has more attributes, other queries, and synthetic rows.
