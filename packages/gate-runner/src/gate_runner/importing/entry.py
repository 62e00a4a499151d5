"""One score of another tool's file, and what of the file was left out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gate_runner.errors import DataError
from gate_runner.runs.folder import portable
from wary_files.text import comma_hint, printable

_LOWER = re.compile(
    r"(^|[_ .-])(loss|ppl|perplexity|bits_per_byte|mae|mse|rmse|brier|ece|error|wer|cer|latency"
    r"|nll|eer|fpr(95)?|fnr|fid|kid|mape|smape|medae|msle|lpips|hd95|assd|epe|abs_?rel|ter|entropy)($|[_ .@-])"
)
_METRICS = {
    "acc1": "acc@1",
    "acc5": "acc@5",
    "lp_acc1": "acc@1",
    "lp_acc5": "acc@5",
    "lp_mean_per_class_recall": "mean_per_class_recall",
}
_SHARE = re.compile(
    r"acc(uracy|_norm)?|(lp_)?acc@?\d+|(lp_)?mean_per_class_recall|mean_average_precision|(t2i|i2t)_r@\d+"
    r"|(image|text)_retrieval_recall@\d+|(image|text|group|text_to_image|image_to_text)_?acc|(avg_)?jaccard_score.*"
)
"""Metrics that are shares, by our names and the tools' own."""
_LONGEST = 200
"""Bytes of a name in a file's name."""
_RECALL = re.compile(r"(image|text)_retrieval_recall@(\d+)")


@dataclass(frozen=True)
class Entry:
    """A score as another tool printed it.

    Args:
        model: what the file calls the model.
        benchmark: the data set, with the protocol behind ``@`` if it is not class prompts or retrieval.
        task: the task type that it is nearest to, or what the tool calls it.
        metric: by our name, if we have the same.
        value: the score.
        place: where it is in the file, as ``line 7``.
        direction: ``"higher"`` or ``"lower"`` is better.
        low: lower end of a 95 % interval; NaN if the file has none.
        high: upper end; NaN likewise.
        seed: of the run; 0 if the file has none.
        samples: number of test samples, or None if the file has none.
    """

    model: str
    benchmark: str
    task: str
    metric: str
    value: float
    place: str
    direction: str = "higher"
    low: float = math.nan
    high: float = math.nan
    seed: int = 0
    samples: int | None = None


Rows = Iterable[tuple[int, Mapping[str, str]]]
"""Lines of a CSV with their numbers, by column."""


@dataclass
class Reading:
    """What was read of one file.

    Args:
        tool: whose file it is, in words.
        entries: its scores.
        skipped: places by the reason why they hold no score that is taken.
    """

    tool: str
    entries: list[Entry] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)

    def skip(self, place: str, reason: str) -> None:
        """Note what is left out."""
        self.skipped.setdefault(reason, []).append(place)


def our_metric(name: str) -> str:
    """Return our name of a metric that we have, and the tool's own of any other.

    Example:
        >>> our_metric("acc1"), our_metric("image_retrieval_recall@5"), our_metric("CIDEr")
        ('acc@1', 't2i_r@5', 'CIDEr')
    """
    recall = _RECALL.fullmatch(name)
    if recall:
        return f"{'t2i' if recall[1] == 'image' else 'i2t'}_r@{recall[2]}"
    return _METRICS.get(name, name)


def direction_of(metric: str) -> str:
    """Return ``"lower"`` for errors, losses and times, and ``"higher"`` for all else."""
    return "lower" if _LOWER.search(metric.lower()) else "higher"


def named(value: Any, where: str, default: str = "") -> str:
    """Return a name of a model, data set, task or metric; the default where it is empty.

    Raises:
        DataError: it is no text or number, has control characters, or is too long for a file's name; shows its place.
    """
    if value is None or value == "":
        return default
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{where} is {value!r:.60}; expected a name")
    text = str(value).strip()
    if printable(text) != text:
        raise DataError(f"{where} is {printable(text)[:60]!r}; expected a name without control characters")
    if len(portable(text).encode()) > _LONGEST:
        raise DataError(f"{where} is {text[:60]!r}; expected a name of at most {_LONGEST} bytes")
    return text or default


def number(value: Any, where: str) -> float | None:
    """Return a cell's number; None where it is empty or NaN.

    Raises:
        DataError: it is not a number, or it is infinite; shows the value and its place. ``1_0`` and digits of other
            scripts are no numbers.
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "na", "n/a", "nan", "none", "null")):
        return None
    try:
        is_odd = isinstance(value, bool) or (isinstance(value, str) and ("_" in value or not value.isascii()))
        read = None if is_odd else float(value)
    except OverflowError:
        read = math.inf
    except (TypeError, ValueError):
        read = None
    if read is None:
        raise DataError(f"{where} is {value!r:.60}; expected a number{comma_hint(value)}")
    if math.isinf(read):
        raise DataError(f"{where} is {value!r:.60}; expected a finite number")
    return None if math.isnan(read) else read


def score(value: Any, metric: str, where: str) -> float | None:
    """Return the number of a cell with a metric's value, see `number`.

    Raises:
        DataError: it is no share, and the metric is one; shows the value and its place.
    """
    read = number(value, where)
    if read is not None and _SHARE.fullmatch(metric) and not 0 <= read <= 1:
        raise DataError(f"{where} is {value!r:.60}; expected a share from 0 to 1: divide per cent by 100")
    return read


def interval(low: float, high: float, where: str) -> tuple[float, float]:
    """Return the ends of an interval; NaN for both where one of them is missing.

    Raises:
        DataError: the lower end is above the upper one, or one of them is infinite; shows both and their place.
    """
    if math.isnan(low) or math.isnan(high):
        return math.nan, math.nan
    if math.isinf(low) or math.isinf(high) or low > high:
        raise DataError(f"{where}: the interval is {low:g} to {high:g}; expected its lower end first")
    return low, high


def whole(value: Any, where: str, default: int) -> int:
    """Return a cell's whole number of at least 0; the default where it is empty.

    Raises:
        DataError: it is another number; shows the value and its place.
    """
    read = number(value, where)
    if read is None:
        return default
    if not 0 <= read <= 2**53 or read != int(read):
        raise DataError(f"{where} is {value!r:.60}; expected a whole number, at least 0")
    return int(read)
