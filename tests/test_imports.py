"""The house: arrows between modules point to earlier entries only, and imports are quick and public."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

import pytest

import dpstats

PACKAGE = Path(dpstats.__file__).parent

# The order of the architecture: a package may import from entries before its own. Inside a package no modules import
# each other in a circle.
ORDER = [
    "errors",
    "data",
    "parallel",
    "inference",
    "privacy",
    "lattice",
    "release",
    "mechanisms",
    "means",
    "sensitivity",
    "quantiles",
    "tables",
    "survival",
    "ranks",
    "queries",
    "regression",
    "groups",
    "conformal",
    "covariance",
    "statistic",
    "identity",
    "sql",
    "simulation",
    "auditing",
    "textbook",
    "plots",
    "cli",
    "__main__",
]
Offenders = dict[str, dict[str, Collection[str]]]
"""What rules find, by the rule and by the file."""

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def parsed(path: Path) -> list[ast.AST]:
    """Return the nodes of a file that the rules look at: imports, and attributes."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute)]


def imported(nodes: list[ast.AST]) -> set[str]:
    """Return the dotted names of the dpstats modules that a file imports, anywhere in it."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpstats."):
            folder = PACKAGE.joinpath(*node.module.split(".")[1:])
            inner = {item.name for item in node.names if (folder / f"{item.name}.py").exists()}
            names |= {f"{node.module}.{name}" for name in inner}
            names |= {node.module} if len(inner) < len(node.names) else set()
        elif isinstance(node, ast.Import):
            names |= {item.name for item in node.names if item.name.startswith("dpstats.")}
    return names


def backward_arrows(module: str, names: set[str]) -> list[str]:
    """Return which of the imported names are of a package that is not before the module's own."""
    own = module.split(".")[1]
    packages = {name: name.split(".")[1] for name in names}
    return [name for name, package in packages.items() if package != own and ORDER.index(package) >= ORDER.index(own)]


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return modules that import each other in a circle: what is left if modules without imports are taken away."""
    left = {name: {one for one in imports if one in graph and one != name} for name, imports in graph.items()}
    while free := [name for name, imports in left.items() if not imports & left.keys()]:
        for name in free:
            del left[name]
    # Those that only lead into a circle go too.
    while roots := left.keys() - {one for imports in left.values() for one in imports}:
        for name in roots:
            del left[name]
    return [sorted(left)] if left else []


def module_of(path: Path) -> str:
    return ".".join(["dpstats", *path.relative_to(PACKAGE).with_suffix("").parts])


def test_arrows_point_to_earlier_packages(found: Offenders) -> None:
    assert found["arrows"] == {}


def test_no_modules_import_each_other() -> None:
    graph = {module_of(path): imported(parsed(path)) for path in MODULES if path.name != "__init__.py"}
    assert circles(graph) == []


def test_the_rules_can_fail(tmp_path: Path) -> None:
    module = tmp_path / "lattice.py"
    module.write_text("def f():\n    from dpstats.means.clipped import ClippedMean\n    import dpstats.errors\n")
    assert backward_arrows("dpstats.lattice.base", imported(parsed(module))) == ["dpstats.means.clipped"]
    assert backward_arrows("dpstats.means.clipped", {"dpstats.lattice", "dpstats.means.moments"}) == []
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set(), "e": {"a"}}
    assert circles(graph) == [["b", "c"]] and circles({"a": {"b"}, "b": set()}) == []
    assert imported(parsed(PACKAGE / "means" / "clipped.py")) >= {"dpstats.release.session", "dpstats.lattice"}


def private_modules_of_others(nodes: list[ast.AST]) -> list[str]:
    """Return the private modules of other packages that a file imports from."""
    modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return [
        module
        for module in modules
        if not module.startswith("dpstats")
        and any(part.startswith("_") for part in module.split(".") if part != "__future__")
    ]


def test_no_private_modules_of_others(found: Offenders) -> None:
    assert found["private modules"] == {}


def test_private_modules_of_others_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("from __future__ import annotations\nfrom scipy.stats._qmc import Sobol\n")
    assert private_modules_of_others(parsed(module)) == ["scipy.stats._qmc"]


# What may be said of noise outside release/: which scales can be drawn.
PUBLIC_ABOUT_NOISE = {"check_scale", "MAX_SCALE", "MIN_SCALE"}


def names_a_source(nodes: list[ast.AST]) -> set[str]:
    """Return how a file could reach noise but through a session: the sources, OpenDP, the system's entropy."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "dpstats.release.noise":
            found |= {item.name for item in node.names} - PUBLIC_ABOUT_NOISE
        elif isinstance(node, ast.ImportFrom | ast.Import):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [i.name for i in node.names]
            found |= {name for name in modules if name.split(".")[0] in {"opendp", "secrets"}}
            found |= {"dpstats.release.noise"} & set(modules)
            if isinstance(node, ast.ImportFrom) and node.module == "dpstats.release":
                found |= {"noise"} & {item.name for item in node.names}
        elif isinstance(node, ast.Attribute) and node.attr in {"urandom", "_noise", "_source"}:
            found.add(node.attr)
    return found


def may_name_a_source(path: Path) -> bool:
    """Return whether a module may: identities of ledgers and charges are random, and the doctor asks the system."""
    return path.parent.name == "release" or path.name in ("ledger.py", "kept_answers.py", "doctor.py")


def test_noise_is_reached_through_a_session_only(found: Offenders) -> None:
    assert found["sources of noise"] == {}


def test_a_source_would_be_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    for line, name in (
        ("from dpstats.release.noise import ExactNoise, check_scale", "ExactNoise"),
        ("import dpstats.release.noise", "dpstats.release.noise"),
        ("from dpstats.release import noise", "noise"),
        ("def f():\n    from opendp.measurements import make_laplace", "opendp.measurements"),
        ("import os\nos.urandom(8)", "urandom"),
        ("session._noise.laplace(1.0, 3)", "_noise"),
    ):
        module.write_text(line)
        assert names_a_source(parsed(module)) == {name}


def private_names_of_others(nodes: list[ast.AST]) -> list[str]:
    """Return what a file takes from other modules by a private name: imported, or as an attribute of a module."""
    found, modules = [], set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [item.name for item in node.names]
            found += [f"{node.module}.{name}" for name in names if is_private(name)]
            found += [str(node.module)] * any(map(is_private, str(node.module).split(".")))
            # A name may be a module's, or that of anything else with public attributes only.
            modules |= {item.asname or item.name for item in node.names if item.name.islower()}
        elif isinstance(node, ast.Import):
            found += [item.name for item in node.names if any(map(is_private, item.name.split(".")))]
            modules |= {(item.asname or item.name).split(".")[0] for item in node.names}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and is_private(node.attr):
            found += [f"{node.value.id}.{node.attr}"] * (node.value.id in modules)
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


SCRIPTS = sorted((PACKAGE.parent / "validation").rglob("*.py"))


@pytest.fixture(scope="module")
def found() -> Offenders:
    """Return what each rule finds in the files that it is about, by the file; every file is read once."""
    rules: Offenders = {rule: {} for rule in ("arrows", "private modules", "sources of noise", "private names")}
    for path in [*MODULES, *SCRIPTS]:
        name, nodes = str(path.relative_to(PACKAGE.parent)), parsed(path)
        rules["private names"][name] = private_names_of_others(nodes)
        if path in SCRIPTS:
            continue
        rules["arrows"][name] = backward_arrows(module_of(path), imported(nodes))
        rules["private modules"][name] = private_modules_of_others(nodes)
        if not may_name_a_source(path):
            rules["sources of noise"][name] = names_a_source(nodes)
    assert all(len(files) > 150 for files in rules.values())
    return {rule: {name: offense for name, offense in files.items() if offense} for rule, files in rules.items()}


def test_no_private_names_of_other_modules(found: Offenders) -> None:
    assert found["private names"] == {}


def test_private_names_of_others_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "from __future__ import annotations\nfrom dpstats.identity.base import _crossing, PrivateTest\n"
        "import _timing\nfrom dpstats.identity import null\nimport dpstats.plots as plots\n"
        "null._memory.clear()\nplots._new_figure()\nself._mine = null.__name__\n"
    )
    assert sorted(private_names_of_others(parsed(module))) == [
        "_timing",
        "dpstats.identity.base._crossing",
        "null._memory",
        "plots._new_figure",
    ]


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(' '.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_dpstats_loads_nothing_heavy() -> None:
    loaded = modules_after("import dpstats; dpstats.__version__; dir(dpstats)")
    assert not loaded & {"numpy", "scipy", "sklearn", "opendp", "dp_accounting", "pandas", "matplotlib"}


def test_a_budget_needs_no_estimators_and_a_fit_needs_opendp_only_to_draw() -> None:
    assert not modules_after("import dpstats.privacy") & {"sklearn", "opendp", "matplotlib", "dp_accounting"}
    assert not modules_after("import dpstats.means") & {"opendp", "matplotlib", "dp_accounting"}
    fit = "import dpstats.means as m; m.ClippedMean(clip=1.0).fit([[1.0], [2.0]])"
    assert "opendp" in modules_after(fit)


def test_audits_of_numbers_do_without_sklearn_and_matplotlib() -> None:
    audit = "import dpstats.auditing as a; a.audit_outputs(list(range(2000)), list(range(2000)), epsilon=1.0)"
    assert not modules_after(audit) & {"sklearn", "matplotlib", "joblib", "tqdm", "opendp", "pandas"}


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dpstats.nothing
    assert dpstats.ClippedMean is dpstats.means.ClippedMean


def test_the_top_level_has_the_subpackages_and_the_classes_used_most() -> None:
    internal = {"cli", "lattice", "release"}
    packages = {module.name for module in pkgutil.iter_modules(dpstats.__path__) if module.ispkg}
    names = set(dpstats.__all__)
    assert packages - internal <= names
    for name in names - packages - {"__version__"}:
        found = getattr(dpstats, name)
        assert inspect.isclass(found) and name in sys.modules[found.__module__.rsplit(".", 1)[0]].__all__


PUBLIC = [name for name in dpstats.__all__ if inspect.ismodule(getattr(dpstats, name))]


def test_completion_shows_public_names_only() -> None:
    packages = [getattr(dpstats, name) for name in PUBLIC]
    wrong = {package.__name__ for package in packages if dir(package) != sorted(package.__all__)}
    assert len(packages) > 15 and wrong == set()


def modules_like_tests(package: ModuleType) -> set[str]:
    """Return the modules of a package with the name of one of its tests."""
    words = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", public).lower() for public in package.__all__}
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    functions = {public for public in package.__all__ if inspect.isfunction(getattr(package, public))}
    return {word for word in words if word.endswith("_test")} & (modules - functions)


def test_no_module_has_the_name_of_a_test_or_an_estimator() -> None:
    # Who looks for a function `spatial_sign_test` is not to find a module.
    wrong = {name: modules_like_tests(getattr(dpstats, name)) for name in PUBLIC}
    assert {name: modules for name, modules in wrong.items() if modules} == {}
