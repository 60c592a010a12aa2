"""Which tests are asked about a mutant, in their order: those of its file, of its package, then wider ones."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from planted import Mutant

CONFORMANCE = "tests/conformance"
NETS = " ".join(
    f"tests/nets/test_{name}.py"
    for name in ("units", "orders", "reflections", "more_rows", "summaries", "parameters")
)
"""Nets over every estimator."""
SAME = " ".join(f"tests/nets/test_{name}.py" for name in ("names", "any_order", "containers", "remaining"))
"""The same rows otherwise: in other containers, orders and letters; and what remains of a budget."""
RECORDED = "tests/nets/test_recorded.py"
"""Seeded numbers of all packages, in seconds: asked after the tests of the package."""
WORDS = "tests/nets/test_recorded_words.py"
"""What every call and command says, with every value of its options: asked next."""

# Beside the folder of tests that mirrors a package; every entry is a step of its own.
WIDER = {
    "release": [
        "tests/privacy/test_units.py",
        "tests/mechanisms/test_additive.py tests/means/test_clipped.py",
        f"{CONFORMANCE}/test_state.py {CONFORMANCE}/test_leaks.py",
        f"{CONFORMANCE}/test_replay.py",
        CONFORMANCE,
    ],
    "privacy": ["tests/release", f"{CONFORMANCE} -k plan"],
    "lattice": [
        "tests/means/test_clipped.py tests/nets/test_blocks.py",
        f"{CONFORMANCE}/test_row_ownership.py {CONFORMANCE}/test_coarse_lattices.py",
        f"{CONFORMANCE} -k mean",
    ],
    "data": [
        "tests/means/test_clipped.py tests/mechanisms/test_histogram.py tests/cli/test_files.py",
        "tests/cli/test_group_means.py",
    ],
    "means": [
        f"{CONFORMANCE}/test_many_draws.py",
        f"{CONFORMANCE}/test_row_ownership.py {CONFORMANCE}/test_replay.py -k mean",
        NETS,
        "tests/nets/test_errors_of_means.py",
        f"{CONFORMANCE} -k mean",
        "tests/cli",
    ],
    "mechanisms": [
        f"{CONFORMANCE}/test_state.py {CONFORMANCE}/test_leaks.py",
        f"{CONFORMANCE}/test_replay.py",
        CONFORMANCE,
    ],
    "covariance": [
        NETS,
        *(f"{CONFORMANCE} -k {word}" for word in ("covariance", "Hotelling", "components", "correlation")),
    ],
    "statistic": [NETS, f"{CONFORMANCE} -k statistic"],
    "queries": [
        NETS,
        f"{CONFORMANCE} -k construction",
        f"{CONFORMANCE} -k online",
        f"{CONFORMANCE} -k workload",
    ],
    "sensitivity": [f"{CONFORMANCE} -k median", "tests/sql"],
    "sql": [f"{CONFORMANCE} -k SQL"],
    "tables": [
        NETS,
        "tests/nets/test_textbook_intervals.py tests/nets/test_errors_of_counts.py",
        "tests/nets/test_families.py",
        f"{CONFORMANCE} -k contingency",
    ],
    "ranks": [NETS, "tests/nets/test_errors_of_tests.py", f"{CONFORMANCE} -k rank"],
    "survival": [NETS, f"{CONFORMANCE} -k survival"],
    "identity": [
        *(
            f"{CONFORMANCE} -k {word}"
            for word in ("filtering", "extension", "products", "distance", "spatial")
        ),
        NETS,
        "tests/nets/test_errors_of_tests.py",
        f"{CONFORMANCE}/test_null_laws.py",
        "tests/cli/test_identity_test.py",
    ],
    "quantiles": [NETS, "tests/nets/test_errors_of_quantiles.py", f"{CONFORMANCE} -k quantile"],
    "groups": [NETS, "tests/nets/test_errors_of_groups.py", f"{CONFORMANCE} -k unit"],
    "regression": [NETS, "tests/nets/test_errors_of_regressions.py", f"{CONFORMANCE} -k regression"],
    "simulation": [
        "tests/cli/test_simulate.py",
        "tests/validation --ignore=tests/validation/test_mutants.py",
    ],
    "auditing": ["tests/cli/test_audit.py", CONFORMANCE],
    "cli": [],
    "": [
        NETS,
        "tests/nets/test_one_way_out.py tests/nets/test_families.py",
        "tests/means tests/identity/test_base.py tests/cli",
    ],
}

# The entries of the conformance suite that a file of the identity tests is about: asked before the whole package.
ENTRIES = {
    "filtering": ("filtering",),
    "extension": ("extension",),
    "l1_norm": ("extension",),
    "products": ("products",),
    "row_distance": ("distance",),
    "row_constants": ("distance",),
    "spatial": ("spatial",),
    "whitening": ("whitened", "null"),
}


def package_of(file: str) -> str:
    """Return the package below dpstats that a file is in; "" for the files beside the packages."""
    parts = PurePosixPath(file).parts
    return parts[1] if len(parts) > 2 else ""


def steps(mutant: Mutant, root: Path) -> list[str]:
    """Return arguments of pytest, one call after the other, nothing twice."""
    path = PurePosixPath(mutant.file)
    below = path.relative_to(path.parts[0]).parent
    package = package_of(mutant.file)
    own = f"tests/{below}/test_{path.stem}.py" if package else f"tests/test_{path.stem}.py"
    found = [mutant.tests] if mutant.tests else []
    rest = f"tests/{package}"
    if (root / own).exists():
        found.append(own)
        if package == "identity":
            words = [word for part, some in ENTRIES.items() if part in path.stem for word in some]
            found += [f"{CONFORMANCE} -k {word}" for word in words]
        rest += f" --ignore={own}"
    if package:
        found.append(rest)
    # Then the examples of the docstrings, and what is recorded: seconds, where simulations and audits take minutes.
    found.append(mutant.file)
    found += [one for one in (RECORDED, WORDS) if (root / one).exists()]
    found += [*WIDER.get(package, []), *([SAME] if (root / SAME.split()[0]).exists() else [])]
    return list(dict.fromkeys(found))
