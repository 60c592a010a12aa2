"""What is distributed: stable names are there, and the recipe of conda has the requirements of the package."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import stable

ROOT = Path(__file__).resolve().parents[1]


def test_promised_names_and_parameters_are_there() -> None:
    assert len(stable.promised()) > 200 and stable.broken(stable.promised()) == []


def test_a_name_or_a_parameter_that_is_gone_is_found() -> None:
    names = {
        "dpstats.means.ClippedMean": ["clip", "bounds"],
        "dpstats.means.ClippedMedian": [],
        "dpstats.means.AdaptiveMean": ["bound", "radius"],
    }
    assert stable.broken(names) == ["dpstats.means.ClippedMedian", "dpstats.means.AdaptiveMean(radius)"]


def written() -> tuple[dict[str, Any], dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return recipe, project


def test_the_recipe_has_the_requirements_of_the_package() -> None:
    recipe, project = written()
    about = project["project"]
    python = f"python{about['requires-python']}"
    needed = [words.replace(" ", "") for words in recipe["requirements"]["run"]]
    assert needed == [python, *about["dependencies"]]
    built = [words.replace(" ", "") for words in recipe["requirements"]["host"]]
    assert built == [python, "pip", *project["build-system"]["requires"]]


def test_the_recipe_has_the_names_of_the_package() -> None:
    recipe, project = written()
    about = project["project"]
    assert recipe["package"] == {"name": about["name"], "version": about["version"]}
    assert recipe["build"]["entry_points"] == [f"{name} = {at}" for name, at in about["scripts"].items()]
    assert recipe["about"]["summary"] == about["description"]
    assert recipe["about"]["license"] == about["license"]
    assert (ROOT / recipe["about"]["license_file"]).exists()
