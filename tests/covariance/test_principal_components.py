"""Private principal components: directions, intervals of variances, the transformer, and printed statements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.covariance import PrivatePCA
from dpstats.errors import InvalidData, InvalidParameter

SPREAD = np.array([3.0, 1.5, 0.7, 0.7])
TURN, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))
DRAWS = {
    "normal": lambda rng, n: rng.normal(size=(n, 4)),
    "skewed": lambda rng, n: rng.exponential(size=(n, 4)) - 1,
    "heavy": lambda rng, n: rng.standard_t(4, size=(n, 4)) / np.sqrt(2),
}


def rows(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    return (DRAWS[kind](rng, n) * SPREAD) @ TURN.T + 1.0


def shrunk_variance(pca: PrivatePCA, X: np.ndarray) -> np.ndarray:
    """Return the variances that intervals are about, of many rows: straight from the definition."""
    scores = pca.transform(np.clip(X, -14, 16)) / np.sqrt(pca._found.sizes) / pca.plan_.unit
    norms = np.linalg.norm(scores, axis=1) / pca.plan_.score_radius
    unit = pca._found.sizes * pca.plan_.unit**2
    return np.asarray((scores / np.maximum(norms, 1.0)[:, None]).var(axis=0) * unit)


@pytest.mark.parametrize("kind", DRAWS)
def test_intervals_cover(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 150 independent intervals at 0.95 fewer than 132 cover with probability 2e-4.
    options = {"n_components": 2, "bounds": (-14, 16)}
    plan = PrivatePCA(**options).plan(4000, 4)
    monkeypatch.setattr(PrivatePCA, "plan", lambda self, n_samples, n_features: plan)
    rng = np.random.default_rng(4)
    many = rows(kind, rng, 50_000)
    covered = []
    for seed in range(75):
        made = PrivatePCA(**options, random_state=seed).fit(rows(kind, rng, 4000))
        true = shrunk_variance(made, many)
        interval = made.confidence_interval()
        covered.append((interval.low <= true) & (true <= interval.high))
    assert np.sum(covered) >= 132


def test_directions_and_means_are_those_of_the_rows() -> None:
    X = rows("normal", np.random.default_rng(0), 30_000)
    made = PrivatePCA(n_components=2, bounds=(-14, 16), random_state=0).fit(X)
    assert np.all(np.abs(np.diagonal(made.components_ @ TURN[:, :2])) > 0.99)
    np.testing.assert_allclose(made.components_ @ made.components_.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(made.mean_, 1.0, atol=0.1)
    np.testing.assert_allclose(made.explained_variance_, SPREAD[:2] ** 2, rtol=0.1)
    # Noise adds at most two fifths to the width of the interval of normal rows.
    interval, normal = made.confidence_interval(), 1.96 * np.sqrt(2 / 30_000) * SPREAD[:2] ** 2
    assert np.all(interval.high - interval.low < 2 * 1.4 * normal)
    assert np.all(made.noise_std_ < made.standard_error_)


def test_columns_of_other_units_and_a_scale() -> None:
    X = rows("normal", np.random.default_rng(1), 30_000) * [1.0, 100.0, 0.01, 1.0]
    bounds = np.array([[-14, 16], [-1400, 1600], [-0.14, 0.16], [-14, 16]])
    plain = PrivatePCA(bounds=bounds, random_state=0).fit(X)
    # The second column has all the variance.
    assert abs(plain.components_[0, 1]) > 0.99 and np.all(plain.scale_ == 1)
    assert plain.explained_variance_[0] == pytest.approx(X[:, 1].var(), rel=0.1)
    scaled = PrivatePCA(bounds=bounds, scale="std", random_state=0).fit(X)
    np.testing.assert_allclose(scaled.scale_, X.std(axis=0), rtol=0.35)
    expected = np.linalg.eigvalsh(np.cov((X / scaled.scale_).T))[-1]
    assert scaled.explained_variance_[0] == pytest.approx(expected, rel=0.15)
    scores = scaled.transform(X)
    assert scores[:, 0].var() == pytest.approx(expected, rel=0.02)


def test_a_step_of_a_pipeline() -> None:
    X = pd.DataFrame(rows("normal", np.random.default_rng(2), 2000), columns=list("abcd"))
    pipe = make_pipeline(FunctionTransformer(), PrivatePCA(n_components=2, bounds=(-14, 16), random_state=0))
    scores = pipe.set_output(transform="pandas").fit_transform(X)
    assert list(scores.columns) == ["privatepca0", "privatepca1"] and len(scores) == 2000
    with pytest.raises(InvalidData, match="finite"):
        pipe[-1].transform(X.where(X > 0))


def test_what_is_printed() -> None:
    X = rows("normal", np.random.default_rng(0), 400)
    made = PrivatePCA(n_components=4, bounds=(-14, 16), random_state=0).fit(X)
    text = str(made.summary())
    assert "Not separated" in text and "clipped to the bounds" in text and "component 4" in text
    hard = PrivatePCA(bounds=(-50, 50), bounds_are="hard", random_state=0).fit(X)
    assert "clipped to the bounds" not in hard.estimand_
    few = PrivatePCA(bounds=(-14, 16), epsilon=0.05, random_state=0).fit(X[:5])
    assert "below 50 rows" in str(few.summary()) and np.isfinite(few.standard_error_).all()
    assert np.all(few.confidence_interval().low >= 0)


def test_a_scree_plot() -> None:
    pytest.importorskip("matplotlib")
    X = rows("normal", np.random.default_rng(0), 2000)
    ax = PrivatePCA(n_components=3, bounds=(-14, 16), random_state=0).fit(X).scree_plot()
    assert ax.get_xlabel() == "component" and len(ax.get_xticks()) == 3


def test_a_biplot_has_an_arrow_for_each_column() -> None:
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(0).normal(size=(3000, 3)) * [3.0, 2.0, 0.5]
    frame = pd.DataFrame(X, columns=["a", "$b$", "c"])
    made = PrivatePCA(n_components=2, bounds=(-12, 12), epsilon=1e4, random_state=0).fit(frame)
    ax = made.biplot()
    drawn = {text.get_text(): text.xy for text in ax.texts if text.get_text()}
    # Independent columns lie along the components, at their standard deviations.
    assert set(drawn) == {"a", r"\$b\$", "c"}
    assert np.abs([*drawn["a"]]) == pytest.approx([3.0, 0.0], abs=0.2)
    assert np.abs([*drawn[r"\$b\$"]]) == pytest.approx([0.0, 2.0], abs=0.2)
    assert "component 2: variance" in ax.get_ylabel() and made.biplot(ax) is ax
    noisy = PrivatePCA(n_components=2, bounds=(-12, 12), epsilon=0.05, random_state=0).fit(X[:5])
    assert np.all(np.isfinite(noisy.biplot().get_xlim()))
    with pytest.raises(InvalidParameter, match="n_components must be at least 2 for a biplot"):
        PrivatePCA(bounds=(-12, 12), random_state=0).fit(X).biplot()


def test_constant_columns_have_no_variance() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 1)) * [1.0, 0.0]
    made = PrivatePCA(n_components=2, bounds=(-4, 4), random_state=0, epsilon=1e4).fit(X)
    assert made.explained_variance_[1] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("scale", [None, "std"])
def test_noise_alone_gives_intervals_inside_what_is_possible(scale: str | None) -> None:
    # More columns than rows. Of 100 intervals at 0.95 fewer than 85 cover with probability 2e-5.
    rng, covered = np.random.default_rng(1), 0
    for seed in range(100):
        made = PrivatePCA(bounds=(-4, 4), random_state=seed, scale=scale).fit(rng.normal(size=(6, 12)))
        low, high = made.confidence_interval()
        direction = made.components_[0] / made.scale_
        covered += bool(low[0] <= direction @ direction <= high[0])
        assert 0 <= low[0] <= high[0] <= (1 + 1e-12) * (4 * np.abs(direction).sum()) ** 2
    assert covered >= 85


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 5}, "n_components must be"),
        ({"scale": "max"}, "scale must be"),
        ({"delta": 0.0}, "delta must be greater than 0"),
        ({"bounds": None}, "bounds must be given"),
    ],
)
def test_bad_parameters(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PrivatePCA(**{"bounds": (-1, 1), **options}).plan(100, 4)


def test_intervals_of_eigenvalues_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 120 independent intervals at 0.95 fewer than 104 cover with probability 2e-4.
    options = {"n_components": 2, "bounds": (-14, 16)}
    plan = PrivatePCA(**options).plan(4000, 4)
    monkeypatch.setattr(PrivatePCA, "plan", lambda self, n_samples, n_features: plan)
    rng, true, covered = np.random.default_rng(5), SPREAD[:2] ** 2, []
    for seed in range(60):
        made = PrivatePCA(**options, random_state=seed).fit(rows("normal", rng, 4000))
        interval = made.confidence_interval(estimand="eigenvalue")
        covered.append((interval.low <= true) & (true <= interval.high))
    assert np.sum(covered) >= 104
    assert "eigenvalues of the covariance" in interval.estimand
    # Their width is that of variances along directions, and little more.
    ratio = np.ptp(np.stack([interval.low, interval.high]), axis=0)
    assert np.all(ratio < 1.3 * np.ptp(np.stack(made.confidence_interval()), axis=0))


def test_equal_eigenvalues_have_all_possible_values() -> None:
    X = np.random.default_rng(6).normal(size=(3000, 4))
    made = PrivatePCA(n_components=2, bounds=(-5, 5), random_state=0).fit(X)
    found = made.estimates(estimand="eigenvalue")
    low, high = found.confidence_interval()
    unknown = np.isnan(found.error)
    assert unknown.any() and np.all(low[unknown] == 0) and np.all(high[unknown] == 100)
    assert "Not identified" in str(made.summary(estimand="eigenvalue"))
    assert "Not identified" not in str(made.summary())
    with pytest.raises(InvalidParameter, match="estimand must be one of"):
        made.confidence_interval(estimand="population")


@pytest.mark.parametrize("scale", [None, "std"])
def test_no_eigenvalue_is_larger_than_that_of_rows_at_the_corners(scale: str | None) -> None:
    X = np.random.default_rng(0).normal(size=(2000, 3)) * [1.0, 0.2, 3.0]
    model = PrivatePCA(bounds=[(-4, 4), (-1, 1), (-9, 9)], scale=scale, random_state=0).fit(X)
    largest = model.estimates(estimand="eigenvalue").distribution.box[1]
    np.testing.assert_allclose(largest, np.sum((np.array([4.0, 1.0, 9.0]) / model.scale_) ** 2))
