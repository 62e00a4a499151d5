"""CLIP, CLIP2CLIP and CLIP Fusion on a micro knowledge base of rendered entities, over several seeds.

    python benchmarks/micro_kb.py --encoder micro-clip --seeds 5

An entity is a colour, a material and a shape (320 in all); a third have a picture. A question shows two things and asks
for one by its shape, so that the picture alone does not decide. Questions of half the entities (another half for each
seed; the pictures are the same) are trained on. Needs gate-runner, which brings the encoder and the renderer; the
encoder stays as it is, only the four weights or Fusion's layers are trained.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, render
from gate_runner.encoders import load_encoder
from oven_retrieval.evaluation import harmonic_mean
from oven_retrieval.models import Clip2Clip, Weights, grid_search
from oven_retrieval.models.contrastive import Entities, Questions, Recipe, seen_unseen, train_dual
from oven_retrieval.models.dual import Clip2ClipModule, ClipFusion

RESULTS = Path(__file__).parent / "results"
ENTITIES = list(itertools.product(COLOURS, MATERIALS, SHAPES))


def thing(entity: int, x: float, y: float, size: str) -> Item:
    """One entity in a scene."""
    colour, material, shape = ENTITIES[entity]
    return Item(shape=shape, colour=colour, size=size, material=material, x=x, y=y)


def words(entity: int) -> str:
    """An entity's name in the micro world's words."""
    colour, material, shape = ENTITIES[entity]
    return f"a {material} {colour} {shape}"


def pictures(scenes: list[Scene], encoder) -> torch.Tensor:
    """Features of rendered scenes."""
    parts = []
    for i in range(0, len(scenes), 256):
        images = torch.from_numpy(np.ascontiguousarray(render(scenes[i : i + 256]).images)).permute(0, 3, 1, 2)
        parts.append(encoder.encode_image(images).clone())
    return torch.cat(parts)


def make_questions(count: int, rng: np.random.Generator, encoder, shapes: dict[str, torch.Tensor]) -> Questions:
    """`count` questions of each entity."""
    scenes, truth = [], np.repeat(np.arange(len(ENTITIES)), count)
    for entity in truth:
        other = int(rng.integers(len(ENTITIES)))
        while ENTITIES[other][2] == ENTITIES[entity][2]:
            other = int(rng.integers(len(ENTITIES)))
        left, right = rng.uniform(0.22, 0.3), rng.uniform(0.7, 0.78)
        places = [(left, rng.uniform(0.35, 0.65)), (right, rng.uniform(0.35, 0.65))]
        if rng.random() < 0.5:
            places.reverse()
        scenes.append(Scene((thing(int(entity), *places[0], "large"), thing(other, *places[1], "large"))))
    texts = torch.stack([shapes[ENTITIES[entity][2]] for entity in truth])
    return Questions(pictures(scenes, encoder), texts, torch.from_numpy(truth))


def part(questions: Questions, mask: torch.Tensor) -> Questions:
    """Some of the questions."""
    return Questions(questions.image[mask], questions.text[mask], questions.truth[mask])


def one_seed(
    seed: int, sets: dict[str, Questions], entities: Entities, has_image: np.ndarray, black: torch.Tensor
) -> dict:
    """Train and score all models with one split into seen and unseen."""
    rng = np.random.default_rng([seed, 1])
    torch.manual_seed(seed)
    known = torch.zeros(len(ENTITIES), dtype=torch.bool)
    known[torch.from_numpy(rng.permutation(len(ENTITIES))[: len(ENTITIES) // 2])] = True
    train = part(sets["train"], known[sets["train"].truth])
    validation, test = sets["val"], sets["test"]
    seen_val, seen_test = known[validation.truth], known[test.truth]
    result = {}

    def record(name: str, model, **more) -> None:
        seen, unseen = seen_unseen(model, test, entities, seen_test)
        result[name] = {"seen": seen, "unseen": unseen, "harmonic": harmonic_mean(seen, unseen), **more}

    record("CLIP", Clip2ClipModule(Weights()))
    some = rng.permutation(len(train.truth))[:1000]
    search = Clip2Clip(
        entities.text.numpy(), entities.image[torch.from_numpy(has_image)].numpy(), has_image, black.numpy()
    )
    grid = grid_search(search, train.image[some].numpy(), train.text[some].numpy(), train.truth[some].numpy())
    record("CLIP2CLIP, grid search", Clip2ClipModule(grid.weights), weights=list(grid.weights))
    model = Clip2ClipModule(grid.weights)
    recipe = Recipe(steps=300, batch=256, rate=1e-2, warmup=20, check_every=20, patience=5, seed=seed)
    trained = train_dual(model, train, entities, validation, seen_val, recipe)
    record("CLIP2CLIP, trained weights", model, weights=list(model.weights), step=trained.step)
    fusion = ClipFusion(entities.text.shape[1], width=128, heads=4)
    recipe = Recipe(steps=300, batch=256, rate=2e-3, warmup=30, check_every=30, patience=5, seed=seed)
    trained = train_dual(fusion, train, entities, validation, seen_val, recipe)
    record("CLIP Fusion", fusion, step=trained.step)
    return result


def interval(values: list[float]) -> dict[str, float]:
    """Mean and 95 % interval over seeds (Student's t)."""
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}[len(values)]
    spread = t * float(np.std(values, ddof=1)) / np.sqrt(len(values))
    mean = float(np.mean(values))
    return {"mean": round(mean, 2), "low": round(mean - spread, 2), "high": round(mean + spread, 2)}


def main() -> int:
    """Run all seeds, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="micro-clip")
    parser.add_argument("--seeds", type=int, default=5, choices=range(2, 11))
    parser.add_argument("--train", type=int, default=12, help="training questions per entity")
    parser.add_argument("--output", type=Path, default=RESULTS / "micro_kb.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder = load_encoder(options.encoder)
    has_image = np.arange(len(ENTITIES)) % 3 == 0
    alone = pictures([Scene((thing(e, 0.5, 0.5, "large"),)) for e in range(len(ENTITIES))], encoder)
    black = encoder.encode_image(torch.zeros(1, 3, encoder.image_size, encoder.image_size, dtype=torch.uint8))[
        0
    ].clone()
    image = torch.where(torch.from_numpy(has_image)[:, None], alone, black)
    entities = Entities(image, encoder.encode_text([words(e) for e in range(len(ENTITIES))]).clone())
    rng = np.random.default_rng(0)
    shapes = {shape: encoder.encode_text([f"a {shape}"])[0].clone() for shape in SHAPES}
    counts = {"train": options.train, "val": 2, "test": 5}
    sets = {name: make_questions(count, rng, encoder, shapes) for name, count in counts.items()}
    print({name: len(questions.truth) for name, questions in sets.items()}, "questions", flush=True)
    runs = []
    for seed in range(options.seeds):
        runs.append(one_seed(seed, sets, entities, has_image, black))
        print(
            seed,
            {name: {k: round(v[k], 1) for k in ("seen", "unseen", "harmonic")} for name, v in runs[-1].items()},
            flush=True,
        )
    result = {
        "encoder": encoder.spec,
        "encoder fingerprint": encoder.fingerprint(),
        "entities": len(ENTITIES),
        "with image": int(has_image.sum()),
        "questions of each entity": counts,
        "chance %": round(100 / len(ENTITIES), 2),
        "seeds": options.seeds,
        "percent, mean and 95 % interval over seeds": {
            name: {kind: interval([run[name][kind] for run in runs]) for kind in ("seen", "unseen", "harmonic")}
            for name in runs[0]
        },
        "CLIP2CLIP minus CLIP, unseen": interval(
            [r["CLIP2CLIP, trained weights"]["unseen"] - r["CLIP"]["unseen"] for r in runs]
        ),
        "CLIP2CLIP minus Fusion, unseen": interval(
            [r["CLIP2CLIP, trained weights"]["unseen"] - r["CLIP Fusion"]["unseen"] for r in runs]
        ),
        "Fusion minus CLIP2CLIP, seen": interval(
            [r["CLIP Fusion"]["seen"] - r["CLIP2CLIP, trained weights"]["seen"] for r in runs]
        ),
        "weights": [[round(w, 3) for w in r["CLIP2CLIP, trained weights"]["weights"]] for r in runs],
        "versions": {
            "python": platform.python_version(),
            **{n: version(n) for n in ("oven-retrieval", "torch", "numpy")},
        },
    }
    print(json.dumps(result, indent=1))
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
