"""Does the default few-shot tuner stay above zero-shot on sets that nobody looked at when its rule was made?

    python experiments/unseen_sets.py

Seven sets of the micro world, drawn for this and nothing else: colours, shapes, sizes of shapes, numbers of shapes,
places of two things, pairs of shapes, and sorts whose names say nothing. micro-clip; 1, 2 and 5 images per class by
ELEVATER's rule, ten draws; class texts by one template. `anchored` (the default) against zero-shot and against the same
without texts; intervals are Student's over draws of the mean over sets, and over draws for each set. Writes
results/unseen_sets.json and .md.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from icinw_few_shot import interval

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, sample_scene
from eqben_builder.stand_ins.drawing import draw, scenes_of
from knowledge_prompts import ClassPrompts, build_prompts, class_embeddings
from vision_adapters.fewshot import elevater_indices
from vision_adapters.tuning import HeldOut, tune, tuning_data
from vision_features.encoders import load_encoder

RESULTS = Path(__file__).parent / "results"
SHOTS, DRAWS = (1, 2, 5), 10
TRAINED, TESTED = 24, 30
"""Images of each class."""
_NUMBERS = ("two", "three", "four", "five")
_PLACES = ("left of", "right of", "above", "below")
_SOME = SHAPES[:5]

Make = Callable[[np.random.Generator, int], Scene]


def _apart(rng: np.random.Generator, relation: str) -> Scene:
    """A circle and a star, the first one at a place from the second."""
    near, far = rng.uniform(0.2, 0.34), rng.uniform(0.66, 0.8)
    along, across = (near, far) if relation in ("left of", "above") else (far, near), rng.uniform(0.3, 0.7, 2)
    spots = [(along[i], across[i]) if relation in ("left of", "right of") else (across[i], along[i]) for i in range(2)]
    colours = rng.choice(COLOURS, 2)
    items = tuple(
        Item(shape, str(colour), "large", "plain", float(x), float(y))
        for shape, colour, (x, y) in zip(("circle", "star"), colours, spots, strict=True)
    )
    return Scene(items, sample_scene(rng, 0).background)


def sets() -> dict[str, tuple[tuple[str, ...], Make]]:
    """Class names, and a scene of the class with a number."""
    pairs = list(combinations(_SOME, 2))
    sizes = list(product(("small", "large"), SHAPES))
    numbers = list(product(_NUMBERS, ("circles", "stars", "hearts")))
    sorts = list(product(("small", "large"), MATERIALS))
    return {
        "colours": (tuple(f"{c} object" for c in COLOURS), lambda rng, k: sample_scene(rng, 1, colours=[COLOURS[k]])),
        "shapes": (SHAPES, lambda rng, k: sample_scene(rng, 1, shapes=[SHAPES[k]])),
        "sizes": (
            tuple(f"{size} {shape}" for size, shape in sizes),
            lambda rng, k: sample_scene(rng, 1, sizes=[sizes[k][0]], shapes=[sizes[k][1]]),
        ),
        "numbers": (
            tuple(f"{number} {shapes}" for number, shapes in numbers),
            lambda rng, k: sample_scene(rng, 2 + _NUMBERS.index(numbers[k][0]), shapes=[numbers[k][1][:-1]]),
        ),
        "places": (tuple(f"circle {p} a star" for p in _PLACES), lambda rng, k: _apart(rng, _PLACES[k])),
        "pairs": (tuple(f"{a} and a {b}" for a, b in pairs), lambda rng, k: _both(rng, pairs[k])),
        "sorts": (
            tuple(f"sort {letter}" for letter in "ABCDEFGH"),
            lambda rng, k: sample_scene(rng, (1, 2), sizes=[sorts[k][0]], materials=[sorts[k][1]]),
        ),
    }


def _both(rng: np.random.Generator, shapes: tuple[str, str]) -> Scene:
    two = [sample_scene(rng, 1, shapes=[shape]).items[0] for shape in shapes]
    while np.hypot(two[0].x - two[1].x, two[0].y - two[1].y) < two[0].radius + two[1].radius:
        two = [sample_scene(rng, 1, shapes=[shape]).items[0] for shape in shapes]
    return Scene(tuple(two), sample_scene(rng, 0).background)


def scores() -> dict[str, dict[str, list[float]]]:
    """Accuracies, a value for each draw, by set and images per class, and by method."""
    encoder = load_encoder("micro-clip", device="cpu")
    assert encoder.text is not None
    collected: dict[str, dict[str, list[float]]] = {}
    for number, (name, (classes, make)) in enumerate(sets().items()):
        count = len(classes)
        features, labels = [], []
        for each in (TRAINED, TESTED):
            seed = 7_000_000 + 10_000 * number + each
            scenes = scenes_of(seed, each * count, lambda rng, index, make=make, count=count: make(rng, index % count))
            pictures = torch.from_numpy(draw(scenes, seed, noise=0.08).images).movedim(-1, 1).contiguous()
            features.append(torch.cat([encoder.encode_image(batch).cpu() for batch in pictures.split(256)]))
            labels.append(torch.arange(each * count) % count)
        prompts = build_prompts(ClassPrompts(name, ["a {}"], list(classes)))
        texts = torch.from_numpy(
            class_embeddings(lambda words: encoder.encode_text(words).numpy(), prompts).weights
        ).float()
        for shots in SHOTS:
            value = collected.setdefault(f"{name} {shots}", {"zero_shot": [], "anchored": [], "random": []})
            for seed in range(DRAWS):
                rows = torch.from_numpy(elevater_indices(labels[0], shots, seed).indices)
                for method, listed in value.items():
                    data = tuning_data(
                        features[0][rows],
                        labels[0][rows],
                        classes=count,
                        seed=seed,
                        logit_scale=encoder.logit_scale or 100.0,
                        class_embeddings=None if method == "random" else texts,
                    )
                    tuned = tune(data, "anchored" if method == "random" else method)
                    listed.append(HeldOut(features[1], labels[1]).score(tuned, resamples=0).value)
            print(name, shots, {method: round(statistics.fmean(v), 3) for method, v in value.items()}, flush=True)
    return collected


def main() -> None:
    """Score, and write both files."""
    cells = scores()
    lines = ["| set | images per class | zero-shot | ours | without texts | ours − zero-shot |", "|---" * 6 + "|"]
    for key, values in cells.items():
        means = {method: interval(listed) for method, listed in values.items()}
        gain = interval([a - b for a, b in zip(values["anchored"], values["zero_shot"], strict=True)])
        shown = [f"{100 * mean:.1f} ± {100 * width:.1f}" for mean, width in means.values()]
        name, shots = key.split()
        lines.append(f"| {name} | {shots} | {' | '.join(shown)} | {100 * gain[0]:+.1f} ± {100 * gain[1]:.1f} |")
    over: dict[str, list[float]] = {}
    lines.append("")
    for shots in SHOTS:
        here = [values for key, values in cells.items() if key.endswith(f" {shots}")]
        for other in ("zero_shot", "random"):
            gaps = [statistics.fmean(v["anchored"][draw] - v[other][draw] for v in here) for draw in range(DRAWS)]
            mean, width = interval(gaps)
            over[f"{shots} against {other}"] = [mean, width]
            lines.append(f"- {shots} per class, mean over {len(here)} sets: {100 * mean:+.2f} ± {100 * width:.2f} "
                         f"points against {other}")  # fmt: skip
    text = "\n".join(lines).replace("| -", "| −") + "\n"
    (RESULTS / "unseen_sets.json").write_text(json.dumps({"cells": cells, "over sets": over}, indent=1) + "\n")
    (RESULTS / "unseen_sets.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
