"""Train micro-dense: a tiny dual encoder whose single patches have words, on scenes of large things on grounds.

    python packages/gate-runner/training/train_micro_dense.py --work-dir DIRECTORY [--export]

micro-clip's training shows small things on nearly black images, and its patches are hardly aligned with words. Here
one to four things of any shape, 18 to 54 pixels wide and cut by the frame, are on a dark ground or on one or two
coloured ones. A caption names up to four of what is visible, grounds among them. The loss is CLIP's, on the class token
alone: nothing teaches single patches.

Step k draws from (seed, k) alone, as in `train_micro_clip`. Training takes seeds 1,100,000 and above, the scores here
520,000 and 520,001; the runner's benchmarks stay below 100,000.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import train_micro_clip as base
from torch import Tensor

from eqben_builder import micro
from eqben_builder.micro.attributes import RGB
from vision_features.encoders.micro_clip import MicroTokenizer, build_micro_clip, folder_of

TRAINING_SEED, HELD_OUT_SEED = 1_100_000, 520_000
SIDE = base.SIZE
EASY_PAIRS = 30_000
"""The first pairs show one or two things, for shapes to be learnt sooner."""
RADII = (0.14, 0.42)
"""Of things, as shares of the side."""
COLOURED, TWO_GROUNDS = 0.6, 0.6
"""Share of images with a coloured ground, and of these with two."""
SEEN, SEEN_GROUND = 0.02, 0.06
"""Shares of an image's pixels that a thing and a ground show at least, to be named."""
MODEL_CFG: dict[str, Any] = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": SIDE, "patch_size": 8, "width": 64, "layers": 3, "head_width": 32},
    "text_cfg": {
        "context_length": 32,
        "vocab_size": len(base.VOCABULARY),
        "width": 64,
        "heads": 2,
        "layers": 1,
        "pool_type": "eos",
        "eos_id": len(base.VOCABULARY) - 1,
    },
}
ARCHITECTURE = {"model_cfg": MODEL_CFG, "stem_channels": [16, 32]}
_ROWS, _COLUMNS = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE
_COLOURS = np.array([RGB[name] for name in micro.COLOURS])


def with_article(noun: str) -> str:
    """Return a noun behind its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def large(scene: micro.Scene, rng: np.random.Generator) -> micro.Scene:
    """Return the same things, larger and anywhere."""
    items = [
        replace(
            item,
            scale=round(float(rng.uniform(*RADII)), 4),
            x=round(float(rng.uniform(0.05, 0.95)), 4),
            y=round(float(rng.uniform(0.05, 0.95)), 4),
        )
        for item in scene.items
    ]
    return micro.Scene(tuple(items), scene.background)


def training_pair(seed: int, index: int) -> tuple[np.ndarray, str]:
    """Return pixels ``[64, 64, 3]`` and a caption of what is visible."""
    rng = micro.generator_at(seed, index)
    count = int(rng.integers(1, 3)) if index < EASY_PAIRS else int(rng.integers(1, 5))
    scene = large(micro.sample_scene(rng, count, max_overlap=0.4), rng)
    drawn = micro.render([scene], SIDE)
    pixels, visible = drawn.images[0], drawn.visible[0]
    ground = visible == 0
    if rng.random() < COLOURED:
        first, second = (int(number) for number in rng.permutation(len(micro.COLOURS))[:2])
        turn, cut, two = rng.uniform(0, np.pi), rng.uniform(-0.3, 0.3), rng.random() < TWO_GROUNDS
        beyond = ((_COLUMNS - 0.5) * np.cos(turn) + (_ROWS - 0.5) * np.sin(turn) > cut) & two
        kinds = np.where(beyond, second, first)
        pixels = np.where(ground[..., None], np.rint(255 * _COLOURS[kinds]), pixels).astype(np.uint8)
        names = [micro.COLOURS[kind] for kind in (first, second) if ((kinds == kind) & ground).mean() > SEEN_GROUND]
    else:
        names = ["dark"] if ground.mean() > SEEN_GROUND else []
    phrases = [
        with_article(f"{name} background") if rng.random() < 0.75 else "a background"
        for name in names
        if rng.random() < 0.8
    ]
    for number, item in enumerate(scene.items):
        shares = {"shape": 0.85, "colour": 0.75, "material": 0.4}
        fields = [field for field, share in shares.items() if rng.random() < share]
        if (visible == number + 1).mean() > SEEN:
            phrases.append(micro.Phrase.of(item, fields).with_article())
    phrases = [phrases[number] for number in rng.permutation(len(phrases))][:4] or ["a background"]
    text = f"{', '.join(phrases[:-1])} and {phrases[-1]}" if len(phrases) > 1 else phrases[0]
    return pixels, f"a photo of {text}" if rng.random() < 0.3 else text


def training_batch(step: int, batch: int, tokenizer: MicroTokenizer) -> tuple[Tensor, Tensor]:
    """Return images and token ids of a step, with noise and a change of brightness as micro-clip's have."""
    pairs = [training_pair(TRAINING_SEED, step * batch + number) for number in range(batch)]
    images = torch.from_numpy(np.stack([pixels for pixels, _ in pairs])).permute(0, 3, 1, 2).float() / 255
    rng = micro.generator_at(TRAINING_SEED + 1, step)
    gain = rng.uniform(0.75, 1.25, (batch, 1, 1, 1)).astype(np.float32)
    sigma = rng.uniform(-0.1, 0.1, (batch, 1, 1, 1)).clip(0).astype(np.float32)
    noise = rng.standard_normal(tuple(images.shape), dtype=np.float32) * sigma
    images = (images * torch.from_numpy(gain) + torch.from_numpy(noise)).clamp(0, 1)
    return base.normalise(images), tokenizer([text for _, text in pairs])


@torch.no_grad()
def evaluate(model: Any, tokenizer: MicroTokenizer) -> dict[str, tuple[float, float]]:
    """Return name of a score to (score, chance): of whole images, on held-out seeds."""
    scenes = []
    for index in range(1000):
        rng = micro.generator_at(HELD_OUT_SEED, index)
        (item,) = micro.sample_scene(rng, 1).items
        at = {name: float(rng.uniform(0.35, 0.65)) for name in ("x", "y")}
        scenes.append(micro.Scene((replace(item, scale=float(rng.uniform(0.2, 0.35)), **at),)))
    features, scores = base.embed_images(model, scenes), {}
    for field, values in (("colour", micro.COLOURS), ("shape", micro.SHAPES), ("material", micro.MATERIALS)):
        nouns = [name if field == "shape" else f"{name} object" for name in values]
        texts = [with_article(noun) for noun in nouns]
        truth = torch.tensor([values.index(getattr(scene.items[0], field)) for scene in scenes])
        right = (features @ base.embed_texts(model, tokenizer, texts).T).argmax(1) == truth
        scores[f"zero-shot, {len(values)} {field}s"] = (right.float().mean().item(), 1 / len(values))
    pairs = [training_pair(HELD_OUT_SEED + 1, EASY_PAIRS + index) for index in range(500)]
    images = torch.from_numpy(np.stack([pixels for pixels, _ in pairs])).permute(0, 3, 1, 2).float() / 255
    seen = torch.cat([model.encode_image(part, normalize=True) for part in base.normalise(images).split(250)])
    similarity = base.embed_texts(model, tokenizer, [text for _, text in pairs]) @ seen.T
    scores["text-to-image R@1 of 500"] = ((similarity.argmax(1) == torch.arange(500)).float().mean().item(), 1 / 500)
    return scores


CARD = """# micro-dense

A dual encoder of {millions:.2f} M parameters for zero-shot segmentation on synthetic stand-ins: open_clip's `CLIP`,
three convolutions and a vision transformer on their 8 x 8 grid, and a causal text transformer over {words} words. It
was trained only on images and texts that `eqben_builder.micro` makes: one to four large things on a dark ground or on
coloured ones, and captions that name what is visible. It knows nothing outside that world. Licence: MIT, like the code.

The loss is CLIP's, on the class token alone: nothing teaches single patches. What they are worth is measured by
`benchmarks/words_of_patches.py`.

## Scores

Held-out seeds (520,000 and 520,001), whole images. "Random" is the same architecture with random weights, from seed 0.

| score | micro-dense | random | chance |
|---|---|---|---|
{rows}

Zero-shot rows: 1,000 scenes of one large thing on a dark ground. Retrieval: 500 pairs as in training.

## Training

{steps} steps of {batch} fresh pairs: {pairs:,} in all, of which the first {easy_pairs:,} show one or two
things. AdamW has a peak learning rate of {lr}, {warm_up} warm-up steps, linear decay over the last {decay}, and weight
decay of 0.05 on matrices.
{precision}; noise up to 0.1 and brightness from 0.75 to 1.25. It took {minutes:.0f} minutes with one thread on
{hardware}, shared with other work (Python {python}, torch {torch}, open_clip {open_clip}, numpy {numpy}).

To train it again, from the repository's root:

    python packages/gate-runner/training/train_micro_dense.py --work-dir runs/micro-dense --export

The run may be interrupted and started again with the same command, and gives the same bytes on the same machine;
another processor or torch version rounds differently. SHA-256 of weights.safetensors: `{weights_sha256}`.
"""


def main() -> None:
    arguments = base.parsed(__doc__, steps=400, decay=150, lr=2e-3, warm_up=60)
    tokenizer = MicroTokenizer(base.VOCABULARY, MODEL_CFG["text_cfg"]["context_length"])
    model, seconds = base.train(arguments, tokenizer, ARCHITECTURE, training_batch)
    trained = evaluate(base.as_shipped(model), tokenizer)
    table = base.beside_random(trained, evaluate(build_micro_clip(ARCHITECTURE, 0).eval(), tokenizer))
    record = base.recorded(arguments, seconds, table) | {
        "easy_pairs": EASY_PAIRS,
        "training_seeds": [TRAINING_SEED, TRAINING_SEED + 1],
        "held_out_seeds": [HELD_OUT_SEED, HELD_OUT_SEED + 1],
    }
    target = folder_of("micro-dense") if arguments.export else arguments.work_dir
    base.export(model, record, table, target, "micro-dense", ARCHITECTURE, CARD)


if __name__ == "__main__":
    main()
