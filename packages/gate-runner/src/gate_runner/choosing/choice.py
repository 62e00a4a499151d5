"""What a choice among encoders says: a candidate for each, the front of score and speed, sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate_runner.choosing.costs import Costs
from gate_runner.encoders.spec import parse_spec
from gate_runner.errors import DataError, UsageError


@dataclass(frozen=True)
class Candidate:
    """One encoder in a choice.

    Args:
        encoder: its spec.
        verdict: ``"best"``, ``"tied"``, ``"beaten"`` or ``"failed"``.
        value: of the headline metric, on as many pictures as it was judged by; None where it failed.
        low: lower end of its 95 % interval.
        high: upper end.
        p: of the paired test against the best of its last round, after Holm's correction; None for the best.
        readout: where it was read out.
        row_bytes: of one picture's features.
        pictures: of all splits, by which it was judged.
        costs: see `Costs`; None where it failed.
        reason: why it failed, or what a reader must know.

    Example:
        >>> Candidate("lite:0", "failed", reason="no weights").verdict
        'failed'
    """

    encoder: str
    verdict: str
    value: float | None = None
    low: float = 0.0
    high: float = 0.0
    p: float | None = None
    readout: str = "last"
    row_bytes: int = 0
    pictures: int = 0
    costs: Costs | None = None
    reason: str = ""


@dataclass(frozen=True)
class Choice:
    """What `choose` found.

    Args:
        benchmark: its name.
        metric: the headline.
        direction: ``"higher"`` or ``"lower"`` is better.
        candidates: the best first, then the tied, the beaten and the failed.
        runs: folders of those that went to the end, the best first.
        pictures: encoded in all, and as many as whole runs of all would have encoded.
        codes: of the best encoder's features in fewer bytes: code, bytes of a row, value, and its interval.
        sentences: which to take and how sure that is; what the rounds saved.

    Example:
        >>> Choice("digits", "acc@1", "higher", (), (), (300, 900), (), ("Take none.",)).pictures[0] / 900
        0.3333333333333333
    """

    benchmark: str
    metric: str
    direction: str
    candidates: tuple[Candidate, ...]
    runs: tuple[Path, ...]
    pictures: tuple[int, int]
    codes: tuple[dict[str, Any], ...]
    sentences: tuple[str, ...]

    def pareto(self) -> tuple[str, ...]:
        """Encoders that no other one beats both in score and in speed."""
        sign = 1 if self.direction == "higher" else -1
        places = {
            candidate.encoder: (sign * candidate.value, candidate.costs.images_per_second)
            for candidate in self.candidates
            if candidate.value is not None and candidate.costs is not None
        }
        return tuple(
            encoder
            for encoder, (value, speed) in places.items()
            if not any(v >= value and s >= speed and (v, s) != (value, speed) for v, s in places.values())
        )


def encoders_in(text: str) -> tuple[str, ...]:
    """Specs of a text with commas between, or of a file with one in each line (``#`` begins a comment).

    Sizes of pictures with ``|`` between are an encoder each.

    Example:
        >>> encoders_in("micro-clip, timm:vit_tiny_patch16_224@224|384/random")
        ('micro-clip', 'timm:vit_tiny_patch16_224@224/random', 'timm:vit_tiny_patch16_224@384/random')
    """
    path = Path(text)
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else text.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    named = (spec for line in lines if (spec := line.partition("#")[0].strip()))
    specs = tuple(dict.fromkeys(spec for text in named for spec in _of_sizes(text)))
    if len(specs) < 2:
        raise UsageError(f"--encoders {text!r} names {len(specs)} encoder; expected at least two, with commas between")
    for spec in specs:
        parse_spec(spec)
    return specs


def _of_sizes(text: str) -> list[str]:
    """A spec for each size of pictures that one names."""
    sizes = re.search(r"@(\d+(?:x\d+)?(?:\|\d+(?:x\d+)?)+)", text)
    return [text] if sizes is None else [text.replace(sizes[0], f"@{size}") for size in sizes[1].split("|")]


def sentences(choice: Choice, rounds: int) -> tuple[str, ...]:
    """Which encoder to take and how sure that is; what the rounds saved."""
    best, *others_ranked = choice.candidates
    assert best.value is not None
    tied = [candidate for candidate in others_ranked if candidate.verdict == "tied"]
    beaten = sum(candidate.verdict == "beaten" for candidate in others_ranked)
    interval = f"{best.low:.3f}–{best.high:.3f}"
    advice = f"Take {best.encoder}, read out at {best.readout}: {choice.metric} {best.value:.3f} ({interval})"
    if not tied:
        others = "the other" if beaten == 1 else f"all {beaten} others"
        lines = [advice + (f"; a paired test tells it from {others} (Holm)." if beaten else ".")]
    else:
        names = ", ".join(candidate.encoder for candidate in tied)
        lines = [f"{advice}; a paired test does not tell it from {names} (Holm), and tells it from {beaten} others."]
        fastest = max(
            (best, *tied), key=lambda candidate: candidate.costs.images_per_second if candidate.costs else 0.0
        )
        if fastest is not best and fastest.costs and best.costs:
            times = fastest.costs.images_per_second / best.costs.images_per_second
            lines.append(f"Of these, {fastest.encoder} is the fastest, {times:.1f} times {best.encoder}.")
    encoded, all_of_them = choice.pictures
    if rounds > 1:
        lines.append(
            f"{encoded:,} pictures were encoded and judged of {all_of_them:,} that whole runs of all take "
            f"({encoded / all_of_them:.0%})."
        )
    return tuple(lines)
