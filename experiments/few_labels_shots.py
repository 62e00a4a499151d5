"""What methods of few labels gain on zero-shot, at one and four images per class, over twenty draws.

    python experiments/few_labels_shots.py --pictures FOLDER --omniglot ZIP [--minutes 60] [--only "lite:1"]

``FOLDER`` has a folder of images for each class, at any depth: CIFAR-10's. Ten classes each. Worlds are made up
(`feature_world.py`, "as CLIP" with cosines of images and texts as CLIP has them). Digits and CIFAR-10 through
micro-clip have its own class texts. lite:0 to 2 have no texts: there a class's "text" is the mean feature of images
that are neither shown nor tested, 10 of CIFAR-10's and 3 of the 20 drawings of each of Omniglot's characters, each draw
its own.

Methods of images without labels have draws of their own, 40 to 59, which nobody looked at while their guard was made;
"fell back" is the share of draws in which the head of the labels alone, ``anchored``, is kept.

Forms ending in ``_published`` are their papers' own; "nearest mean" takes the class whose mean feature is nearest and
knows no text. Gains are points of accuracy, paired; intervals are 95 %, Student's, over draws. Rule, fixed before the
figures were taken: a method is below zero-shot where its interval lies below 0. The same command goes on with the draws
that are missing. Writes results/few_labels_shots.json and .md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F
from feature_world import AS_CLIP, WORLDS, world
from few_images import features_of
from icinw_few_shot import interval
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor

from vision_adapters.tuning import TuningData, tune, tuning_data
from vision_features.encoders import load_encoder

RESULTS = Path(__file__).parent / "results"
GUARDED = ("anchored", "ss_text", "ss_text+", "proker", "cross_modal", "gda", "clap", "lp++", "tip_adapter")
PUBLISHED = ("ss_text_published", "ss_text+_published", "gda_published", "clap_published")
UNLABELLED = ("stata", "ss_text_u", "transclip")
DRAWS, SHOTS, TESTED = 20, (1, 4), 1000
FRESH = 40
"""The first draw of methods with images without labels; their guard was chosen on draws 100 to 107."""
WITHOUT = ", without labels"
LITE = ("lite:0", "lite:1", "lite:2")
Drawn = tuple[Tensor, Tensor, Tensor]
"""Features, labels and class texts of a draw, the first ones to be shown."""


def shuffled(x: Tensor, y: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows in an order of the draw."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    return x[order], y[order]


def made_up(options: dict[str, float]) -> Callable[[int], Drawn]:
    """Return draws of a world."""

    def draw(seed: int) -> Drawn:
        x, y, texts = world(seed, classes=10, count=1600, **options)
        return x, y, texts

    return draw


def with_texts(x: Tensor, y: Tensor, texts: Tensor) -> Callable[[int], Drawn]:
    """Return draws of real images with real texts."""
    return lambda seed: (*shuffled(x, y, seed), texts)


def without_texts(x: Tensor, y: Tensor, each: int) -> Callable[[int], Drawn]:
    """Return draws of real images, with the means of some images of each class for texts."""

    def draw(seed: int) -> Drawn:
        rows, labels = shuffled(x, y, seed)
        numbers = torch.arange(len(labels))
        held = torch.cat([numbers[labels == label][:each] for label in range(10)])
        unit = F.normalize(rows, dim=1)
        texts = torch.stack([unit[held][labels[held] == label].mean(0) for label in range(10)])
        rest = ~torch.isin(numbers, held)
        return rows[rest], labels[rest], texts

    return draw


class Split(NamedTuple):
    """Tuning data of the shown images, images without labels, and test images with their classes."""

    data: TuningData
    unlabelled: Tensor
    tested: Tensor
    labels: Tensor

    def accuracy(self, scores: Tensor) -> float:
        """Return the points of scores of the test images."""
        return 100 * float((scores.argmax(1) == self.labels).double().mean())

    def zero_shot(self) -> float:
        """Return the points of the texts alone."""
        return self.accuracy(tune(self.data, "zero_shot").scores(self.tested))


def split(drawn: Drawn, shots: int) -> Split:
    """Show some images of each class, take up to 240 without labels, and test on up to 1,000 others."""
    x, y, texts = drawn
    numbers = torch.arange(len(y))
    shown = torch.cat([numbers[y == label][:shots] for label in range(10)])
    rest = numbers[~torch.isin(numbers, shown)]
    unseen = rest[: min(240, len(rest) // 2)]
    tested = rest[len(unseen) :][:TESTED]
    return Split(tuning_data(x[shown], y[shown], class_embeddings=texts), x[unseen], x[tested], y[tested])


def gains_of(drawn: Drawn, shots: int) -> dict[str, float]:
    """Return zero-shot's accuracy in points, and what each method of labels alone gains on it."""
    parts = split(drawn, shots)
    zero, data, tested = parts.zero_shot(), parts.data, F.normalize(parts.tested, dim=1)
    unit = F.normalize(data.features, dim=1)
    means = torch.stack([unit[data.labels == label].mean(0) for label in range(10)])
    gains = {"nearest mean": parts.accuracy(tested @ F.normalize(means, dim=1).T) - zero}
    for method in (*GUARDED, *PUBLISHED):
        gains[method] = parts.accuracy(tune(data, method).scores(parts.tested)) - zero
    return {"zero-shot": zero} | gains


def gains_without_labels(drawn: Drawn, shots: int) -> dict[str, float]:
    """Return the same of methods that see images without labels, of what they fall back to, and which fell back."""
    parts = split(drawn, shots)
    zero = parts.zero_shot()
    gains = {"anchored": parts.accuracy(tune(parts.data).scores(parts.tested)) - zero}
    fell = {}
    for method in UNLABELLED:
        tuned = tune(parts.data, method, unlabelled=parts.unlabelled)
        gains[method] = parts.accuracy(tuned.scores(parts.tested)) - zero
        fell[f"{method} fell back"] = float("fallback" in tuned.best_params)
    return {"zero-shot": zero} | gains | fell


def drawings(file: Path) -> tuple[list[Image.Image], list[int]]:
    """Return the drawings of ten characters of an alphabet of Omniglot's, and their numbers."""
    with zipfile.ZipFile(file) as held:
        names = sorted(name for name in held.namelist() if name.endswith(".png"))
        characters = sorted({name.rsplit("/", 1)[0] for name in names})[:10]
        chosen = [name for name in names if name.rsplit("/", 1)[0] in characters]
        shown = [Image.open(io.BytesIO(held.read(name))).convert("RGB") for name in chosen]
    return shown, [characters.index(name.rsplit("/", 1)[0]) for name in chosen]


def sources(pictures: Path, omniglot: Path) -> dict[str, Callable[[int], Drawn]]:
    """Return draws by name."""
    files = sorted(path for path in pictures.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    names, numbers = np.unique([path.parent.name for path in files], return_inverse=True)
    photographs = [Image.open(path).convert("RGB") for path in files]
    digits = load_digits()
    drawn = [Image.fromarray((image * 15.9).astype(np.uint8)).convert("RGB") for image in digits.images]
    characters, kinds = drawings(omniglot)
    small = load_encoder("micro-clip")

    def text(template: str, words: list[str]) -> Tensor:
        with torch.no_grad():
            return torch.as_tensor(small.encode_text([template.format(word) for word in words])).float()

    def encoded(spec: str, images: list[Image.Image]) -> Tensor:
        return torch.from_numpy(features_of(spec, images))

    y = torch.from_numpy(numbers.astype(np.int64))
    return {
        **{f"world, {name}": made_up(options) for name, options in WORLDS.items()},
        "world, as CLIP": made_up(AS_CLIP),
        "digits, micro-clip": with_texts(
            encoded("micro-clip", drawn), torch.from_numpy(digits.target).long(),
            text("the digit {}", [str(name) for name in range(10)]),
        ),
        "CIFAR-10, micro-clip": with_texts(encoded("micro-clip", photographs), y, text("a photo of a {}", list(names))),
        **{f"CIFAR-10, {spec}": without_texts(encoded(spec, photographs), y, 10) for spec in LITE},
        **{f"Omniglot, {spec}": without_texts(encoded(spec, characters), torch.tensor(kinds), 3) for spec in LITE},
    }  # fmt: skip


def main() -> None:
    """Go on with the draws that are missing, and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pictures", type=Path, required=True)
    parser.add_argument("--omniglot", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", default="", help="what sources must have in their names, such as 'lite:1'")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    file, end = options.results / "few_labels_shots.json", time.monotonic() + 60 * options.minutes
    done: dict[str, list[dict[str, float]]] = json.loads(file.read_text()) if file.exists() else {}
    drawn = {name: draw for name, draw in sources(options.pictures, options.omniglot).items() if options.only in name}
    for seed in range(DRAWS):
        for shots in SHOTS:
            for ending, first, gains in ((WITHOUT, FRESH, gains_without_labels), ("", 0, gains_of)):
                for name, draw in drawn.items():
                    rows = done.setdefault(f"{name} @ {shots}{ending}", [])
                    if len(rows) == seed and time.monotonic() < end:
                        gained = gains(draw(first + seed), shots)
                        rows.append({method: round(value, 4) for method, value in gained.items()})
        write(file, done)


def write(file: Path, done: dict[str, list[dict[str, float]]]) -> None:
    """Write every draw's figures, and the table."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(rows)}" for key, rows in done.items() if rows)
    file.write_text("{\n" + lines + "\n}\n")
    file.with_suffix(".md").write_text(as_markdown({key: rows for key, rows in done.items() if rows}))


def as_markdown(done: dict[str, list[dict[str, float]]]) -> str:
    """Return the tables, and what the rule says of them."""
    lines = [
        "# Few shots",
        "",
        "Printed by `experiments/few_labels_shots.py`. Gains are points of accuracy on zero-shot",
        "with their 95 % interval over draws. StatA, SS-Text-U and TransCLIP see up to 240 images without labels.",
    ]
    for shots in SHOTS:
        for ending, heading in (("", "labels alone"), (WITHOUT, "with images without labels")):
            keys = [key for key in done if key.endswith(f"@ {shots}{ending}")]
            if keys:
                lines += ["", f"## {shots} per class, {heading}", "", *_table({key: done[key] for key in keys})]
    return "\n".join([*lines, ""])


def _table(done: dict[str, list[dict[str, float]]]) -> list[str]:
    """One table, a source a column, and which gains have intervals below 0."""
    keys, below = list(done), []
    lines = ["| method | " + " | ".join(key.partition(" @")[0] for key in keys) + " |", "|---" * (len(keys) + 1) + "|"]
    lines.append("| draws | " + " | ".join(str(len(done[key])) for key in keys) + " |")
    for method in done[keys[0]][0]:
        cells = []
        for key in keys:
            values = [row[method] for row in done[key]]
            if method == "zero-shot" or method.endswith("fell back"):
                mean = sum(values) / len(values)
                cells.append(f"{mean:.1f}" if method == "zero-shot" else f"{mean:.0%}")
                continue
            middle, half = interval(values)
            cells.append(f"{middle:+.1f} ± {half:.1f}")
            if middle + half < 0:
                below.append(f"{method} on {key.partition(' @')[0]}")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, "", f"Below zero-shot: {'; '.join(below) or 'none'}."]


if __name__ == "__main__":
    main()
