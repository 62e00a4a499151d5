"""CLIP, CLIP2CLIP, CLIP Fusion and the patch adaptor on a micro knowledge base of rendered entities, over seeds.

    python experiments/micro_kb.py --unseen colours --seeds 5
    python experiments/micro_kb.py --unseen colours --seeds 10 --equal-inputs
    python experiments/micro_kb.py --unseen combinations --seeds 5
    python experiments/micro_kb.py --unseen colours --seeds 3 --train 6 --test 4 --tune 0 --output …

An entity is a colour, a material and a shape (320 in all); a third have a picture. A question shows two things and asks
for one by its shape, so that the picture alone does not decide. Half the entities are seen in training, as answers and
as the other thing. The others are new `combinations` of colours, materials and shapes that were all seen, or have
`colours` (5 of 10) that training never shows. Another half for each seed; a half of the unseen entities is for
validation, the rest for the test. The adaptor is compared with a CLIP2CLIP of equal inputs: it sees the same patches
and the same question through the map where the adaptor starts, and learns what CLIP2CLIP learns, the weights, and how
much the patches count. A second adaptor has what the graph says in its loss: entities of the batch that share colour,
material or shape with the right one are right in part, which stands for the types and relations of KnowCoL. Splits
that the output has already are not run again. Needs gate-runner, which brings the encoder (micro-clip, which knows all
colours, as CLIP knows much of Wikipedia), and eqben-builder, which draws.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from patch_adaptor import PatchAdaptor, fit_patch_map, pack
from torch import nn

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, render
from oven_retrieval.evaluation import harmonic_mean
from oven_retrieval.models import Clip2Clip, Weights, grid_search
from oven_retrieval.models.contrastive import (
    Entities,
    Questions,
    Recipe,
    answers,
    contrastive_loss,
    seen_unseen,
    train_dual,
)
from oven_retrieval.models.dual import Clip2ClipModule, ClipFusion
from vision_features.encoders import load_encoder
from vision_features.encoders.micro_clip import load_micro_clip

RESULTS = Path(__file__).parent / "results"
ENTITIES = list(itertools.product(COLOURS, MATERIALS, SHAPES))
TYPES = torch.tensor([(COLOURS.index(c), MATERIALS.index(m), SHAPES.index(s)) for c, m, s in ENTITIES])
"""Colour, material and shape of each entity."""
WIDTH = 192
"""Of micro-clip's patch features."""
T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


class LastBlock(nn.Module):
    """micro-clip's last image block, norm and projection: from the tokens before it to features."""

    def __init__(self, visual) -> None:
        super().__init__()
        self.block, self.norm = copy.deepcopy(visual.transformer.resblocks[-1]), copy.deepcopy(visual.ln_post)
        self.project = nn.Parameter(visual.proj.detach().clone())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[n, 65, 192] to [n, 128]; only the class token is needed after the attention."""
        return self.norm(self.block.first(tokens.float())[:, 0]) @ self.project


class Eyes:
    """micro-clip up to its last image block, and its text side."""

    def __init__(self) -> None:
        self.encoder = load_encoder("micro-clip")
        self.visual = load_micro_clip()[0].visual.requires_grad_(False)
        self.last = LastBlock(self.visual)
        self.blank = self.tokens(np.zeros((1, self.encoder.image_size, self.encoder.image_size, 3), np.uint8))

    @torch.no_grad()
    def tokens(self, images: np.ndarray) -> torch.Tensor:
        """Tokens before the last block, float16."""
        x = self.visual.embedded(self.encoder.prepare(torch.from_numpy(images).permute(0, 3, 1, 2)))
        for block in self.visual.transformer.resblocks[:-1]:
            x = block(x)
        return x.half()

    def draw(self, scenes: list[Scene]) -> torch.Tensor:
        """Tokens of rendered scenes."""
        return torch.cat([self.tokens(render(scenes[i : i + 256]).images) for i in range(0, len(scenes), 256)])

    @torch.no_grad()
    def packed(self, tokens: torch.Tensor, block: int = 512) -> torch.Tensor:
        """Pooled features and the 64 places behind them, as the adaptor takes them, float16; nothing of a black one."""
        rows = []
        for part in (tokens[i : i + block].float() for i in range(0, len(tokens), block)):
            places = self.last.norm(self.visual.transformer.resblocks[-1](part))[:, 1:]
            places[(part == self.blank.float()).flatten(1).all(dim=1)] = 0
            rows.append(pack(self.last(part), places).half())
        return torch.cat(rows)

    @torch.no_grad()
    def features(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the encoder returns for these tokens."""
        return torch.cat([self.last(tokens[i : i + 512]) for i in range(0, len(tokens), 512)])

    def pooled(self, questions: Questions) -> Questions:
        """The same questions with features for tokens."""
        return Questions(self.features(questions.image), questions.text, questions.truth)


class EqualInputs(PatchAdaptor):
    """CLIP2CLIP with the adaptor's inputs: patches through a fixed map; weights and gates alone are learned."""

    def __init__(self, dim: int, places: int, start: torch.Tensor, weights: Weights) -> None:
        super().__init__(dim, places, start, weights)
        for look in (self.look_query, self.look_entity):
            look.key.requires_grad_(False)
            look.value.requires_grad_(False)

    def loss(self, image, text, entity_image, entity_text, truth) -> torch.Tensor:
        """CLIP2CLIP's."""
        return contrastive_loss(self(image, text, entity_image, entity_text), truth)


class GraphAdaptor(PatchAdaptor):
    """The adaptor with the graph in its loss: what shares types with the right entity has a share of the target."""

    share = 0.2
    """Of the target that goes to entities of the batch which share types, by how many of the three they share."""

    def loss(self, image, text, entity_image, entity_text, truth) -> torch.Tensor:
        """The adaptor's, and the cross-entropy against the types that entities of the batch have in common."""
        logits = self(image, text, entity_image, entity_text)
        types = TYPES[truth]
        common = (types[:, None] == types[None]).double().mean(dim=-1).float()
        common.masked_fill_(truth[:, None] == truth[None], 0)
        target = common / common.sum(dim=1, keepdim=True).clamp_min(1e-9)
        graph = sum(-(target * side.log_softmax(dim=1)).sum(dim=1).mean() for side in (logits, logits.T)) / 2
        plain = super().loss(image, text, entity_image, entity_text, truth)
        return (1 - self.share) * plain + self.share * graph


def thing(entity: int, x: float, y: float) -> Item:
    """One entity in a scene."""
    colour, material, shape = ENTITIES[entity]
    return Item(shape=shape, colour=colour, size="large", material=material, x=x, y=y)


def words(entity: int) -> str:
    """An entity's name in the micro world's words."""
    colour, material, shape = ENTITIES[entity]
    return f"a {material} {colour} {shape}"


def make_questions(entities: np.ndarray, count: int, others: np.ndarray, rng: np.random.Generator, eyes: Eyes):
    """`count` questions of each entity; the other thing is one of `others`, of another shape."""
    scenes, truth = [], np.repeat(entities, count)
    for entity in truth:
        other = int(rng.choice(others))
        while ENTITIES[other][2] == ENTITIES[entity][2]:
            other = int(rng.choice(others))
        left, right = rng.uniform(0.22, 0.3), rng.uniform(0.7, 0.78)
        places = [(left, rng.uniform(0.35, 0.65)), (right, rng.uniform(0.35, 0.65))]
        if rng.random() < 0.5:
            places.reverse()
        scenes.append(Scene((thing(int(entity), *places[0]), thing(other, *places[1]))))
    text_features = dict(zip(SHAPES, eyes.encoder.encode_text([f"a {shape}" for shape in SHAPES]).clone(), strict=True))
    texts = torch.stack([text_features[ENTITIES[entity][2]] for entity in truth])
    return Questions(eyes.draw(scenes), texts, torch.from_numpy(truth))


def seen_entities(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Which entities are trained on: a random half, or those of a random half of the colours."""
    if kind == "colours":
        half = {COLOURS[i] for i in rng.permutation(len(COLOURS))[: len(COLOURS) // 2]}
        return np.array([colour in half for colour, _, _ in ENTITIES])
    return np.isin(np.arange(len(ENTITIES)), rng.permutation(len(ENTITIES))[: len(ENTITIES) // 2])


def join(seen: Questions, unseen: Questions) -> tuple[Questions, torch.Tensor]:
    """Questions of seen and of unseen entities, and which are which."""
    parts = zip((seen.image, seen.text, seen.truth), (unseen.image, unseen.text, unseen.truth), strict=True)
    return Questions(*(torch.cat(pair) for pair in parts)), torch.arange(len(seen.truth) + len(unseen.truth)) < len(
        seen.truth
    )


EQUAL, ADAPTOR, GRAPH = "CLIP2CLIP of equal inputs", "adaptor", "adaptor with types in its loss"
ADAPTORS = {EQUAL: EqualInputs, ADAPTOR: PatchAdaptor, GRAPH: GraphAdaptor}


def one_seed(seed: int, options: argparse.Namespace, eyes: Eyes, entities: Entities, has_image: np.ndarray, black):
    """Train and score all models with one split into seen and unseen."""
    rng = np.random.default_rng([seed, 7])
    is_seen = seen_entities(options.unseen, rng)
    old, new, every = np.flatnonzero(is_seen), rng.permutation(np.flatnonzero(~is_seen)), np.arange(len(ENTITIES))
    ahead, later = new[: len(new) // 2], new[len(new) // 2 :]
    train = make_questions(old, options.train, old, rng, eyes)
    half, most = options.test // 2, options.test
    validation, seen_val = join(
        make_questions(old, max(1, half // 2), old, rng, eyes), make_questions(ahead, half, every, rng, eyes)
    )
    test, seen_test = join(make_questions(old, half, old, rng, eyes), make_questions(later, most, every, rng, eyes))
    pooled_entities = Entities(eyes.features(entities.image), entities.text)
    pooled, pooled_val, pooled_test = (eyes.pooled(part) for part in (train, validation, test))
    result: dict[str, dict] = {}
    dim = entities.text[:].shape[1]

    def record(name: str, model: nn.Module, **more) -> None:
        tuned = "fine-tuned" in name
        seen, unseen = seen_unseen(
            model, test if tuned else pooled_test, entities if tuned else pooled_entities, seen_test
        )
        result[name] = {"seen": seen, "unseen": unseen, "harmonic": harmonic_mean(seen, unseen), **more}

    def fit(model: nn.Module, data: Questions, recipe: Recipe):
        return train_dual(model, data, pooled_entities, pooled_val, seen_val, recipe)

    record("CLIP", Clip2ClipModule(Weights()))
    some = rng.permutation(len(train.truth))[:1000]
    search = Clip2Clip(
        entities.text[:].numpy(), pooled_entities.image[torch.from_numpy(has_image)].numpy(), has_image, black.numpy()
    )
    grid = grid_search(search, pooled.image[some].numpy(), pooled.text[some].numpy(), pooled.truth[some].numpy())
    record("CLIP2CLIP, grid search", Clip2ClipModule(grid.weights), weights=list(grid.weights))
    few = Questions(*(part[:: options.train // 3] for part in (pooled.image, pooled.text, pooled.truth)))
    sets = [(f"{options.train} questions an entity", pooled), ("3 questions an entity", few)]
    for label, data in [] if options.equal_inputs else sets if options.tune else sets[:1]:
        model = Clip2ClipModule(grid.weights)
        recipe = Recipe(steps=300, batch_size=256, lr=1e-2, warmup=20, validate_every=20, patience=5, seed=seed)
        trained = fit(model, data, recipe)
        record(f"CLIP2CLIP, four weights, {label}", model, weights=list(model.weights), step=trained.step)
        torch.manual_seed(seed)
        model = ClipFusion(entities.text[:].shape[1], width=128, heads=4)
        recipe = Recipe(steps=300, batch_size=256, lr=2e-3, warmup=30, validate_every=15, patience=5, seed=seed)
        trained = fit(model, data, recipe)
        record(f"CLIP Fusion, {label}", model, step=trained.step)
    packed = Entities(eyes.packed(entities.image), entities.text)
    training, checked, tested = (
        Questions(eyes.packed(part.image), part.text, part.truth) for part in (train, validation, test)
    )
    begin = fit_patch_map(
        *(
            torch.cat([part.float() for part in pair])
            for pair in zip(
                *((p[:, :dim], p[:, dim:].unflatten(1, (-1, WIDTH))) for p in (training.image, packed.image)),
                strict=True,
            )
        )
    )
    places = (packed.image[:].shape[1] - dim) // WIDTH
    recipe = Recipe(
        steps=options.adaptor_steps, batch_size=128, lr=5e-3, warmup=10, validate_every=20, patience=4, seed=seed
    )
    for name, kind in ADAPTORS.items():
        if options.equal_inputs and name == GRAPH:
            continue
        torch.manual_seed(seed)
        model = kind(dim, places, begin, grid.weights)
        if kind is EqualInputs:
            best_gates(model, Questions(training.image[some], training.text[some], training.truth[some]), packed)
        trained = train_dual(model, training, packed, checked, seen_val, recipe)
        seen, unseen = seen_unseen(model, tested, packed, seen_test)
        result[name] = {
            "seen": seen, "unseen": unseen, "harmonic": harmonic_mean(seen, unseen), "step": trained.step,
            "gates": model.gates.tolist(),
        }  # fmt: skip
    if not options.tune or options.equal_inputs:
        return result
    looks: list[tuple[int, float, float, float]] = []
    model = Clip2ClipModule(grid.weights, query_image=LastBlock(eyes.visual), entity_image=LastBlock(eyes.visual))
    model.requires_grad_(True)
    recipe = Recipe(steps=options.tune, batch_size=256, lr=3e-4, warmup=10, validate_every=10, patience=99, seed=seed)
    trained = train_dual(model, train, entities, validation, seen_val, recipe, lambda *look: looks.append(look))
    record("CLIP2CLIP, last image blocks fine-tuned, stopped early", model, step=trained.step, looks=looks)
    return result


def best_gates(model: EqualInputs, questions: Questions, entities: Entities) -> None:
    """Start where patches count as much as answers most training questions rightly."""
    right = {}
    for gates in itertools.product((0.0, 0.5, 1.0, 2.0), (0.0, 0.5, 1.0)):
        model.gates.data = torch.tensor(gates)
        right[gates] = int((answers(model, questions, entities) == questions.truth).sum())
    model.gates.data = torch.tensor(max(right, key=right.get))


def interval(values: list[float]) -> dict[str, float]:
    """Mean and 95 % interval over seeds (Student's t)."""
    spread = T95[len(values)] * float(np.std(values, ddof=1)) / np.sqrt(len(values))
    mean = float(np.mean(values))
    return {"mean": round(mean, 2), "low": round(mean - spread, 2), "high": round(mean + spread, 2)}


def summary(runs: list[dict], options: argparse.Namespace, eyes: Eyes) -> dict:
    """What is written."""
    most = f"{options.train} questions an entity"
    best, fusion = f"CLIP2CLIP, four weights, {most}", f"CLIP Fusion, {most}"
    tuned = "CLIP2CLIP, last image blocks fine-tuned, stopped early"

    pairs = [
        (best, "CLIP"), (best, fusion), (fusion, best), (ADAPTOR, best), (ADAPTOR, fusion), (ADAPTOR, EQUAL),
        (ADAPTOR, "CLIP2CLIP, grid search"), (GRAPH, EQUAL), (GRAPH, ADAPTOR), (tuned, best),
    ]  # fmt: skip
    return {
        "encoder": eyes.encoder.spec,
        "encoder fingerprint": eyes.encoder.fingerprint(),
        "entities": len(ENTITIES),
        "unseen entities": f"new {options.unseen}",
        "chance %": round(100 / len(ENTITIES), 2),
        "seeds": len(runs),
        "percent, mean and 95 % interval over seeds": {
            name: {kind: interval([run[name][kind] for run in runs]) for kind in ("seen", "unseen", "harmonic")}
            for name in runs[0]
        },
        "differences, paired by seed": {
            f"{name} minus {other}, {kind}": interval([run[name][kind] - run[other][kind] for run in runs])
            for name, other in pairs
            if name in runs[0] and other in runs[0]
            for kind in ("seen", "unseen", "harmonic")
        },
        "questions": {"training, per entity": options.train, "test, per unseen entity": options.test},
        "fine-tuning on the validation questions: step, seen, unseen, harmonic (mean over seeds)": [
            [round(float(np.mean(column)), 2) for column in zip(*step, strict=True)]
            for step in zip(*(run[tuned]["looks"] for run in runs if tuned in run), strict=True)
        ],
        "weights": [[round(w, 3) for w in run[best]["weights"]] for run in runs if best in run],
        "steps kept": {name: [run[name]["step"] for run in runs] for name in runs[0] if "step" in runs[0][name]},
    }


def main() -> int:
    """Run all seeds, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unseen", choices=["colours", "combinations"], default="colours")
    parser.add_argument("--seeds", type=int, default=5, choices=range(2, 11))
    parser.add_argument("--train", type=int, default=12, help="training questions per entity, a multiple of 3")
    parser.add_argument("--test", type=int, default=8, help="test questions per unseen entity; half per seen one")
    parser.add_argument(
        "--tune", type=int, default=50, help="steps of fine-tuning; 0 leaves out all but one training set"
    )
    parser.add_argument("--adaptor-steps", type=int, default=200, help="of the adaptors and of CLIP2CLIP beside them")
    parser.add_argument("--equal-inputs", action="store_true", help="only the adaptor and CLIP2CLIP of equal inputs")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    eyes = Eyes()
    has_image = np.arange(len(ENTITIES)) % 3 == 0
    alone = eyes.draw([Scene((thing(e, 0.5, 0.5),)) for e in range(len(ENTITIES))])
    blank = eyes.blank
    image = torch.where(torch.from_numpy(has_image)[:, None, None], alone, blank)
    entities = Entities(image, eyes.encoder.encode_text([words(e) for e in range(len(ENTITIES))]).clone())
    black = eyes.features(blank)[0]
    whole = eyes.encoder.encode_image(torch.zeros(1, 3, eyes.encoder.image_size, eyes.encoder.image_size))[0]
    if not torch.allclose(black, whole, atol=2e-2):
        print("the last block on stored tokens differs from the encoder, nothing is reported")
        return 1
    output = (
        options.output or RESULTS / f"micro_kb_{options.unseen}{'_equal_inputs' if options.equal_inputs else ''}.json"
    )
    settings = {
        name: getattr(options, name) for name in ("unseen", "train", "test", "tune", "adaptor_steps", "equal_inputs")
    }
    before = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else {}
    runs: list[dict] = before["by split"] if before.get("settings") == settings else []
    spent = before["cpu seconds"] if runs else 0
    for seed in range(len(runs), options.seeds):
        runs.append(one_seed(seed, options, eyes, entities, has_image, black))
        for name, scores in runs[-1].items():
            print(seed, name, {kind: round(scores[kind], 1) for kind in ("seen", "unseen", "harmonic")}, flush=True)
        result = (summary(runs, options, eyes) if len(runs) > 1 else {}) | {
            "settings": settings,
            "by split": runs,
            "cpu seconds": spent + round(time.process_time() - start),
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in ("oven-retrieval", "torch", "numpy")},
            },
        }
        output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary(runs, options, eyes), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
