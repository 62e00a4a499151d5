"""What a kept head's probabilities rest on: a temperature, and how its test images conform to their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from wary_files.errors import DataError, UsageError

if TYPE_CHECKING:
    from vision_adapters.calibration import Calibration

METRICS = ("calibration_error", "brier", "log_loss")
MOST = 10_000
"""Test images, at most, that a card keeps the conformity of."""
FOREIGN = 2.0
"""Nonconformity of a test image whose class the head does not know: no set holds it."""


class Calibrated(NamedTuple):
    """What a result says of its probabilities, and what a head's card keeps."""

    training: dict[str, Any]
    card: dict[str, Any]


def calibrated(calibration: Calibration, scores: Tensor, labels: Tensor, seed: int = 0) -> Calibrated:
    """Score probabilities before and after calibration on the test split, and keep what sets of classes follow from.

    Args:
        calibration: fitted on other labels than those of the test split.
        scores: of the test images and the head's classes.
        labels: numbers of the head's classes; -1 for another class.
        seed: of the intervals.
    """
    from paired_scores.metrics import calibration_error, evaluate, reliability
    from vision_adapters.conformal import best_fit

    known = labels >= 0
    record: dict[str, Any] = {"temperature": calibration.temperature, "labels": calibration.labels,
                              "how": calibration.how, "uniform": calibration.uniform}  # fmt: skip
    probabilities = {"before": scores.double().softmax(1), "after": calibration.probabilities(scores.double())}
    training: dict[str, Any] = dict(record)
    if bool(known.any()):
        for when, every in probabilities.items():
            rows, true = every[known].clamp(0, 1), labels[known]
            measured = {name: evaluate(name, rows, true, seed=seed, resamples=300) for name in METRICS}
            training[when] = {name: [score.value, score.low, score.high] for name, score in measured.items()}
            training[f"bins_{when}"] = [list(bin_) for bin_ in reliability(rows, true)]
            error = calibration_error(rows, true, seed=seed)
            training[f"floor_{when}"] = [error.floor, error.floor_high]
    step = -(-len(labels) // MOST)
    own = probabilities["after"].gather(1, labels.clamp_min(0)[:, None])[:, 0]
    conformity = torch.where(known, 1 - own, FOREIGN)
    fits = best_fit(scores.double() / calibration.temperature, "energy")
    card = {**record, "lac": conformity[::step].tolist(), "fits": fits[::step].tolist()}
    return Calibrated(training, card)


class Sets(NamedTuple):
    """Which classes go into the set of an image, and whether it is none of them, by a head's card."""

    temperature: float
    coverage: float | None = None
    known: float | None = None
    lac: Tensor | None = None
    fits: Tensor | None = None
    uniform: float = 0.0

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the calibrated probabilities of scores."""
        from vision_adapters.calibration import SoftmaxMap

        return SoftmaxMap(self.temperature, self.uniform).probabilities(scores)

    def members(self, scores: Tensor) -> list[list[int]] | None:
        """Return the classes of each image's set, the most probable first; None where no coverage was asked for."""
        if self.coverage is None or self.lac is None:
            return None
        from vision_adapters.conformal import ConformalSets

        chosen = ConformalSets("lac", self.lac).sets(self.probabilities(scores.double()), self.coverage)
        order = scores.sort(dim=1, descending=True, stable=True).indices
        return [[c for c in row.tolist() if bool(own[c])] for row, own in zip(order, chosen, strict=True)]

    def none_of_these(self, scores: Tensor) -> list[bool] | None:
        """Return which images are none of the classes; None where that was not asked for."""
        if self.known is None or self.fits is None:
            return None
        from vision_adapters.conformal import OpenWorld

        answers: list[bool] = OpenWorld("energy", self.fits).none_of_these(scores.double() / self.temperature,
                                                                          self.known).tolist()  # fmt: skip
        return answers


def check_record(where: object, record: Any) -> None:
    """Refuse what a card says of its calibration, where it is not what `calibrated` keeps.

    Raises:
        DataError: a temperature that is not a number above 0, or conformity that is not numbers; names file and field.
    """
    if record is None:
        return
    if not isinstance(record, dict):
        raise DataError(f"{where}: calibration is {record!r:.60}, expected an object")
    fields = {"temperature": [record.get("temperature", 1.0)], "lac": record.get("lac") or [],
              "fits": record.get("fits") or [], "labels": [record.get("labels", 0)],
              "uniform": [record.get("uniform", 0.0)]}  # fmt: skip
    for name, values in fields.items():
        listed = values if isinstance(values, list) else [values]
        least = 1e-9 if name == "temperature" else 0 if name in ("lac", "labels", "uniform") else -1e30
        most = 1.0 if name == "uniform" else 1e30
        wrong = [value for value in listed if not _is_number(value) or not least <= value <= most]
        if not isinstance(values, list) or wrong:
            shown = wrong[0] if wrong else values
            raise DataError(f"{where}: calibration, {name} is {shown!r:.60}, expected numbers of at least {least:g}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def sets_of(card: Mapping[str, Any], coverage: float | None, known: float | None) -> Sets:
    """Return what a head's card has for sets, or refuse what it has not.

    Raises:
        UsageError: a share outside (0, 1], or a head without conformity of test images.
    """
    record = card.get("calibration") or {}
    for name, value in (("--coverage", coverage), ("--known", known)):
        if value is None:
            continue
        if not 0 < value <= 1:
            raise UsageError(f"{name} must be above 0 and at most 1, got {value}")
        if not record.get("lac"):
            raise UsageError(
                f"{name} needs a head that kept how its test images conform: adapt zeroshot or adapt probe keeps it"
            )
    lac, fits = (torch.tensor(record.get(name) or [0.0], dtype=torch.float64) for name in ("lac", "fits"))
    return Sets(float(record.get("temperature", 1.0)), coverage, known, lac, fits, float(record.get("uniform", 0.0)))


def rests_on(card: Mapping[str, Any]) -> str:
    """Say on how many labels a head's probabilities rest."""
    from vision_adapters.calibration import Calibration

    record = card.get("calibration") or {}
    fitted = record.get("temperature", 1.0), record.get("labels", 0), record.get("how", "none")
    return str(Calibration(*fitted, record.get("uniform", 0.0)))


def promise(card: Mapping[str, Any], coverage: float) -> str:
    """Say what a set's coverage promises, and on what it rests."""
    from vision_adapters.conformal import GUARANTEE

    count = len(card["calibration"]["lac"])
    most = count / (count + 1)
    short = f" Above {most:.1%} a set holds every class." if coverage > most else ""
    return f"sets of {coverage:.0%} coverage, from {count:,} test images. {GUARANTEE}{short}"


def after_calibration(training: Mapping[str, Any]) -> str:
    """Say what calibration did to the test split's calibration error; empty where nothing was calibrated."""
    record = training.get("calibration") or {}
    if "before" not in record or not record["labels"]:
        return ""
    (before, *_), (after, low, high) = record["before"]["calibration_error"], record["after"]["calibration_error"]
    share = f" and a uniform share of {record['uniform']:.2g}" if record.get("uniform") else ""
    floor = record.get("floor_after")
    chance = f"; right probabilities would have {floor[0]:.3f} on as many images" if floor else ""
    return (
        f"calibration error {before:.3f} before, {after:.3f} [{low:.3f}, {high:.3f}] after a temperature of "
        f"{record['temperature']:.3g}{share} from {record['labels']:,} labels ({record['how']}){chance}"
    )
