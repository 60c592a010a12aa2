"""The command about predictions: ``dpstats conformal``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpstats.cli.options import add_options, check_one, given, refuse_both, split_list
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.tables import InputTable
from dpstats.errors import refuse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PredictionColumns:
    """A fitted model whose predictions are columns of the table.

    Attributes
    ----------
    places : tuple of int
        The columns of X: one prediction, or the probability of each class.
    classes_ : tuple of str
    """

    places: tuple[int, ...]
    classes_: tuple[str, ...] = ()

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predictions."""
        import numpy as np

        return np.asarray(X, dtype=np.float64)[:, self.places[0]]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class."""
        import numpy as np

        return np.asarray(X, dtype=np.float64)[:, list(self.places)]


class ConformalCommand(ReleaseCommand):
    """Intervals, or sets of classes, around predictions that are columns of the table."""

    name = "conformal"
    help = "private intervals, or sets of classes, around a model's predictions"
    description = (
        "Release the half-width of intervals around predictions, which cover new outcomes with probability 1 - alpha, "
        "or the score of sets of classes. --column names the outcome. The model was fitted on other rows. The number "
        "of rows and column names are public."
    )
    kinds = """
    --prediction NAME
        column of predictions
    --classes A,B,...
        the classes of the outcome, which are public; one with a comma stands in double quotes
    """
    parameters = """
    --training {public,private,unprotected}, required
        how the model was fitted: on public rows, by a private release, or on sensitive rows without protection
    """
    parameters += """
    --upper NAME
        column of predicted upper limits; --prediction is then one of lower limits
    --scale NAME
        column of positive predicted scales, which widths are proportional to
    --probabilities A,B,...
        with --classes: the column of the probability of each, in their order
    """
    parameters += """
    --score-bounds S, float
        public bound of the half-width; the half-width is at most this, or infinite
    --y-bounds LO HI, float
        public bounds of the outcome, which intervals are cut to
    --alpha A, float, default 0.1
        probability that an interval misses (default: 0.1)
    """
    parameters += """
    --points N, int
        number of public points that the half-width is chosen among (default: by the rows)
    """
    parameters += """
    --groups A,B,...
        public labels of groups; each has coverage
    --by NAME
        with --groups: the column that has the labels
    """
    names_columns = True
    intervals = False

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        add_options(parser.add_mutually_exclusive_group(required=True), self.kinds)
        super().add_parameters(parser)

    def _columns(self, options: argparse.Namespace) -> list[str]:
        """Return the columns that the model's predictions are in, or refuse options that do not fit together."""
        if options.classes is None:
            if options.probabilities is not None:
                raise refuse_both("--probabilities", "--prediction")
            if options.score_bounds is None:
                raise refuse("--score-bounds", allowed="be given with --prediction")
            named = [options.prediction, options.upper, options.scale]
            names = [str(name) for name in named if name is not None]
        else:
            for name in ("upper", "scale", "score_bounds", "y_bounds"):
                if getattr(options, name) is not None:
                    raise refuse_both(f"--{name.replace('_', '-')}", "--classes")
            names, classes = split_list(options.probabilities or ""), split_list(options.classes)
            if len(names) != len(classes):
                raise refuse(
                    "--probabilities", got=f"{len(names)} columns", allowed=f"one for each of {len(classes)} classes"
                )
        if (options.by is None) != (options.groups is None):
            raise refuse("--by", allowed="be given with --groups, and with it only")
        return names

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        outcome, names = check_one(options), self._columns(options)
        beside = [] if options.by is None else [str(options.by)]
        wanted = [*names, *beside, outcome]
        if len(set(wanted)) < len(wanted):
            raise refuse("--column", allowed="name another column than --by and the columns of predictions")
        text = beside if options.classes is None else [*beside, outcome]
        frame = table.frame(wanted, "--column, --by and the columns of predictions", text=text)
        return frame[[*names, *beside]], frame[outcome]

    def width(self, options: argparse.Namespace) -> int | None:
        return len(self._columns(options))

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.conformal import PrivateConformalClassifier, PrivateConformalRegressor

        names = self._columns(options)
        shared = given(options, "alpha training by epsilon", n_points="points")
        shared["groups"] = None if options.groups is None else split_list(options.groups)
        if options.classes is not None:
            model = PredictionColumns(tuple(range(len(names))), tuple(split_list(options.classes)))
            return PrivateConformalClassifier(model, **shared)
        models = [PredictionColumns((place,)) for place in range(len(names))]
        return PrivateConformalRegressor(
            models[0],
            upper_estimator=None if options.upper is None else models[1],
            scale_estimator=None if options.scale is None else models[-1],
            **given(options, "score_bounds y_bounds"),
            **shared,
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        facts = {"scores": model.to_dict()["rows"], "coverage_bound": model.coverage_bound_}
        return [model.summary()], facts


CONFORMAL = ConformalCommand()
