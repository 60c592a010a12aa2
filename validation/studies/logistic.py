"""Private logistic regressions beside each other and beside the largest likelihood: error, coverage and width.

Designs and what is true of them are in `regression_designs.py`; ours is run beside noisy gradient descent
(`validation/peers/regression_peers.py`) and diffprivlib, which runs in an environment of its own.

    python validation/studies/logistic.py
    python validation/studies/logistic.py --only isotropic 2000x3 --replications 20 --no-write
    python validation/studies/logistic.py --fast                         # as in the suite, nothing written

A part that is run again replaces its cells in the results; ``--resume`` leaves those that are there.
"""

from __future__ import annotations

from regression import Ours, by_descent
from regression_cells import Family
from regression_designs import LOGISTIC
from regression_peers import logit
from regression_report import Report, run

from dpstats.regression import PrivateLogisticRegression

REPORT = Report(
    Family(
        "logistic",
        "MLE",
        logit,
        {"PrivateLogisticRegression": Ours(PrivateLogisticRegression), "noisy gradient descent": by_descent},
        ("diffprivlib",),
    ),
    "logistic",
    "Private logistic regressions at equal (epsilon, delta)",
    ("PrivateLogisticRegression",),
    LOGISTIC,
    (
        "Designs: columns as in `regression.md`, with an index of variance 1 and an intercept for half ones, "
        "or for 5% (*5% outcomes*). RAND: any visit to a physician, in 20,186 person-years of the Health "
        "Insurance Experiment, on the 17 columns of Cameron and Trivedi (2005), section 16.6, or the first "
        "ten. fair: any affair, of the 6,366 women of Redbook's survey. Bounds are those of the "
        "documentation; rows of the last two are drawn with replacement, and the fit to all rows is the "
        "truth.",
        "Neighbors differ in one row that is replaced. MLE has the intervals of statsmodels' Logit, from the "
        "inverse of the information. Noisy gradient descent: full batches, 50 steps of a fixed public size, "
        "clip and momentum, the best of a few that were tried on these designs. diffprivlib's "
        "LogisticRegression (objective perturbation, at its default regularisation) is pure (delta = 0). "
        "dp-econometrics says that its Logit is planned. Where the outcomes of a dataset can be separated the "
        "MLE does not exist, and the dataset counts for coverage only.",
    ),
)

if __name__ == "__main__":
    run(REPORT, __doc__.splitlines()[0])
