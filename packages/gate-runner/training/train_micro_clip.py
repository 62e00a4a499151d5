"""Train micro-clip on the micro world, evaluate it on held-out seeds, and write its files and model card.

    python packages/gate-runner/training/train_micro_clip.py --work-dir DIRECTORY [--export]

The run is a function of its arguments: step k draws its scenes, captions and noise from (seed, k) alone, so that an
interrupted run that is started again ends in the same bytes. Seeds: training takes 1,000,000 and above, the evaluation
here 500,000 to 599,999; the runner's benchmarks stay below 100,000.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from eqben_builder import micro
from eqben_builder.micro.statements import Exists
from vision_features.encoders.micro_clip import FILES, MicroTokenizer, build_micro_clip

TRAINING_SEED = 1_000_000
HELD_OUT_SEED = 500_000
SIZE = 64
CHUNK = 64
MEAN, STD = [0.22, 0.2, 0.21], [0.17, 0.16, 0.17]
VOCABULARY = ["<pad>", "<start>", "<unk>", *micro.VOCABULARY, "<end>"]
MODEL_CFG: dict[str, Any] = {
    "embed_dim": 128,
    "vision_cfg": {"image_size": SIZE, "patch_size": 8, "width": 192, "layers": 4, "head_width": 64},
    "text_cfg": {
        "context_length": 32,
        "vocab_size": len(VOCABULARY),
        "width": 128,
        "heads": 2,
        "layers": 3,
        "pool_type": "eos",
        "eos_id": len(VOCABULARY) - 1,
    },
}
ARCHITECTURE = {"model_cfg": MODEL_CFG, "stem_channels": [32, 64]}
#: The first pairs show one or two objects: shapes are learnt from them several times sooner.
EASY_PAIRS = 64_000


# Data: one scene and one text for every (seed, index).


def training_pair(seed: int, index: int) -> tuple[micro.Scene, str]:
    """One scene and one true text about it: captions of all kinds, full descriptions, and questions with answers."""
    rng = micro.generator_at(seed, index)
    if index < EASY_PAIRS:
        scene = micro.sample_scene(rng, 1 if rng.random() < 0.7 else 2)
        return scene, description(scene, rng)
    form = rng.random()
    if form < 0.15:
        # A crowd of few kinds, so that numbers above three have something to count.
        kinds = 1 + int(rng.random() * 2)
        choices = {
            "shapes": [micro.SHAPES[int(rng.random() * 8)] for _ in range(kinds)],
            "colours": [micro.COLOURS[int(rng.random() * 10)] for _ in range(kinds)],
            "materials": [micro.MATERIALS[int(rng.random() * 4)]],
        }
        scene = micro.sample_scene(rng, (1, 8), sizes=("small",), **choices)
        kind = "count" if rng.random() < 0.75 else None
    else:
        count = int(np.searchsorted([0.35, 0.65, 0.88], rng.random())) + 1
        scene = micro.sample_scene(rng, count, max_overlap=0.5 if form < 0.27 else 0.05)
        kind = None
    wording = rng.random()
    if wording < 0.1:
        return scene, " ".join(micro.question(scene, rng))
    if wording < 0.5 and len(scene.items) <= 4 and kind is None:
        return scene, description(scene, rng)
    return scene, micro.caption(scene, rng, kind=kind)


def description(scene: micro.Scene, rng: np.random.Generator | None = None) -> str:
    """Every item with every field, or, given a generator, with each field but the shape left out one time in five."""
    phrases = []
    for k in range(len(scene.items)) if rng is None else rng.permutation(len(scene.items)):
        fields = [field for field in micro.FIELDS if field == "shape" or rng is None or rng.random() < 0.8]
        phrases.append(micro.Phrase.of(scene.items[k], fields))
    return Exists(tuple(phrases)).text()


def draw(scenes: list[micro.Scene]) -> Tensor:
    """Pictures of scenes, floats in [0, 1], [n, 3, size, size]."""
    return torch.from_numpy(micro.render(scenes, SIZE).images).permute(0, 3, 1, 2).float() / 255


def normalise(images: Tensor) -> Tensor:
    """Images in [0, 1] as the encoder takes them."""
    return (images - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def training_batch(step: int, batch: int, tokenizer: MicroTokenizer) -> tuple[Tensor, Tensor]:
    """The images and token ids of one step, with noise and brightness drawn from that step's own generator."""
    pairs = [training_pair(TRAINING_SEED, step * batch + k) for k in range(batch)]
    images = draw([scene for scene, _ in pairs])
    rng = micro.generator_at(TRAINING_SEED + 1, step)
    gain = rng.uniform(0.75, 1.25, (batch, 1, 1, 1)).astype(np.float32)
    # Half of the images get no noise.
    sigma = rng.uniform(-0.1, 0.1, (batch, 1, 1, 1)).clip(0).astype(np.float32)
    noise = rng.standard_normal(tuple(images.shape), dtype=np.float32) * sigma
    images = (images * torch.from_numpy(gain) + torch.from_numpy(noise)).clamp(0, 1)
    return normalise(images), tokenizer([text for _, text in pairs])


# Training.


def learning_rate(step: int, steps: int, peak: float, warm_up: int, decay: int) -> float:
    """Linear from 0 to `peak` in `warm_up` steps, level, then linear to a hundredth of it in the last `decay` steps."""
    return peak * min(1.0, (step + 1) / warm_up, 0.01 + 0.99 * (steps - step) / decay)


def contrastive_step(
    model: Any, images: Tensor, ids: Tensor, pool: ThreadPoolExecutor, precision: str
) -> tuple[float, list[Tensor]]:
    """CLIP's loss over the whole batch and its gradients, computed in chunks of `CHUNK` pairs, one thread each.

    Chunks meet twice a step, where threads inside one operation would meet hundreds of times; gradients are summed in
    the chunks' order, so that they do not depend on the number of threads.
    """
    parameters = [p for p in model.parameters() if p is not model.logit_scale]

    def forward(images: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        # A shared cache of casts would tie the chunks' graphs together.
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16", cache_enabled=False):
            return model.encode_image(images, normalize=True).float(), model.encode_text(ids, normalize=True).float()

    def backward(features: tuple[Tensor, Tensor], gradients: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(features, parameters, gradients)

    parts = list(pool.map(forward, images.split(CHUNK), ids.split(CHUNK)))
    pictured, written = (torch.cat([part[k].detach() for part in parts]).requires_grad_() for k in (0, 1))
    logits = model.logit_scale.exp() * pictured @ written.T
    target = torch.arange(len(logits))
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    for_scale, for_images, for_texts = torch.autograd.grad(loss, (model.logit_scale, pictured, written))
    shares = list(zip(for_images.split(CHUNK), for_texts.split(CHUNK), strict=True))
    chunks = list(pool.map(backward, parts, shares))
    totals = iter([torch.stack(pieces).sum(0) for pieces in zip(*chunks, strict=True)])
    return loss.item(), [for_scale if p is model.logit_scale else next(totals) for p in model.parameters()]


def train(
    arguments: argparse.Namespace,
    tokenizer: MicroTokenizer,
    architecture: dict[str, Any] = ARCHITECTURE,
    batch_at: Callable[[int, int, MicroTokenizer], tuple[Tensor, Tensor]] = training_batch,
) -> tuple[nn.Module, float]:
    """Train, or go on from the checkpoint in the work directory; returns the model and the seconds taken in all."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model: Any = build_micro_clip(architecture, arguments.seed).train()
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    kept = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": kept, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=arguments.lr, betas=(0.9, 0.98), eps=1e-6)
    settings = {name: getattr(arguments, name) for name in ("batch", "lr", "warm_up", "decay", "seed", "precision")}
    checkpoint, first, before = arguments.work_dir / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        if state["settings"] != settings:
            raise SystemExit(f"{checkpoint} was made with {state['settings']}, this run asks for {settings}")
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        first, before = state["step"], state["seconds"]
        if state["steps"] != arguments.steps and first > min(state["steps"], arguments.steps) - arguments.decay:
            raise SystemExit(f"{checkpoint}: step {first} of {state['steps']} is too late to make it {arguments.steps}")
        print(f"continues at step {first} of {arguments.steps}", flush=True)
    start, last, running = time.perf_counter(), min(arguments.steps, arguments.until), 0.0
    # The plain form: PyTorch's fused attention is twice as slow backwards at 65 tokens on a CPU.
    plain_attention = sdpa_kernel(SDPBackend.MATH)
    with (
        plain_attention,
        ThreadPoolExecutor(arguments.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        coming = pool.submit(batch_at, first, arguments.batch, tokenizer)
        for step in range(first, last):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(step, arguments.steps, arguments.lr, arguments.warm_up, arguments.decay)
            images, ids = coming.result()
            coming = pool.submit(batch_at, step + 1, arguments.batch, tokenizer)
            loss, gradients = contrastive_step(model, images, ids, pool, arguments.precision)
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            with torch.no_grad():
                model.logit_scale.clamp_(max=float(np.log(100)))
            running = loss if step == first else 0.98 * running + 0.02 * loss
            done, taken = step + 1, time.perf_counter() - start
            if done % arguments.report_every == 0 or done == last:
                rest = taken / (done - first) * (last - done)
                rate = (done - first) * arguments.batch / taken
                line = f"step {done}/{arguments.steps} loss {running:.3f} {rate:.0f} pairs/s {rest / 60:.1f} min left"
                print(line, flush=True)
            if done % arguments.save_every == 0 or done == last:
                state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": done}
                state |= {"steps": arguments.steps, "seconds": before + taken, "settings": settings}
                partial = checkpoint.with_suffix(".partial")
                torch.save(state, partial)
                partial.replace(checkpoint)
    return model.eval(), before + time.perf_counter() - start


# Evaluation on held-out seeds.


@torch.no_grad()
def embed_images(model: Any, scenes: list[micro.Scene]) -> Tensor:
    """Unit features [n, embed_dim] of drawn scenes."""
    images = normalise(draw(scenes))
    return torch.cat([model.encode_image(part, normalize=True) for part in images.split(250)])


@torch.no_grad()
def embed_texts(model: Any, tokenizer: MicroTokenizer, texts: list[str]) -> Tensor:
    """Unit features [n, embed_dim] of texts."""
    return torch.cat([model.encode_text(part, normalize=True) for part in tokenizer(texts).split(500)])


def evaluate(model: nn.Module, tokenizer: MicroTokenizer) -> dict[str, tuple[float, float]]:
    """Name of a score to (score, chance), both in [0, 1]."""
    scores = {}
    singles = [micro.scene_at(HELD_OUT_SEED, k, 1) for k in range(1000)]
    features = embed_images(model, singles)
    tasks = {
        "zero-shot, 80 classes of colour and shape": ("colour", "shape"),
        "zero-shot, 10 colours": ("colour",),
        "zero-shot, 8 shapes": ("shape",),
        "zero-shot, 4 materials": ("material",),
        "zero-shot, 2 sizes": ("size",),
    }
    for name, fields in tasks.items():
        phrases = [micro.Phrase.of(scene.items[0], fields) for scene in singles]
        classes = sorted(set(phrases), key=lambda phrase: phrase.text())
        prompts = embed_texts(model, tokenizer, [f"a photo of {phrase.with_article()}" for phrase in classes])
        right = (features @ prompts.T).argmax(1) == torch.tensor([classes.index(phrase) for phrase in phrases])
        scores[name] = (right.float().mean().item(), 1 / len(classes))
    crowds = [
        micro.scene_at(HELD_OUT_SEED + 1, k, (1, 6), sizes=("small",), shapes=(micro.SHAPES[k % 8],))
        for k in range(600)
    ]
    numbers = embed_texts(model, tokenizer, [f"{micro.NUMBERS[n]} object{'s' * (n != 1)}" for n in range(1, 7)])
    counted = (embed_images(model, crowds) @ numbers.T).argmax(1) + 1
    right = counted == torch.tensor([len(scene.items) for scene in crowds])
    scores["zero-shot counting, 1 to 6 objects"] = (right.float().mean().item(), 1 / 6)
    mixed = [micro.scene_at(HELD_OUT_SEED + 2, k, (1, 3)) for k in range(500)]
    similarity = embed_texts(model, tokenizer, [description(scene) for scene in mixed]) @ embed_images(model, mixed).T
    scores["text-to-image R@1 of 500"] = ((similarity.argmax(1) == torch.arange(500)).float().mean().item(), 1 / 500)
    for kind in micro.KINDS:
        pairs = [micro.minimal_pair(micro.generator_at(HELD_OUT_SEED + 3, k), kind) for k in range(500)]
        scores[f"group score, {kind}"] = (group_score(model, tokenizer, pairs), 1 / 6)
        for field in sorted({pair.field for pair in pairs} - {"added", "removed"}):
            chosen = [pair for pair in pairs if pair.field == field]
            scores[f"group score, {kind}: {field}"] = (group_score(model, tokenizer, chosen), 1 / 6)
    return scores


def group_score(model: nn.Module, tokenizer: MicroTokenizer, pairs: list[micro.Pair]) -> float:
    """Share of pairs whose both captions and both images pick their own partner, strictly."""
    images = embed_images(model, [scene for pair in pairs for scene in (pair.scene0, pair.scene1)])
    texts = embed_texts(model, tokenizer, [text for pair in pairs for text in (pair.caption0, pair.caption1)])
    s = torch.einsum("pcd,pid->pci", texts.unflatten(0, (-1, 2)), images.unflatten(0, (-1, 2)))
    right_image = (s[:, 0, 0] > s[:, 0, 1]) & (s[:, 1, 1] > s[:, 1, 0])
    right_text = (s[:, 0, 0] > s[:, 1, 0]) & (s[:, 1, 1] > s[:, 0, 1])
    return (right_image & right_text).float().mean().item()


# Export.


def export(
    model: nn.Module,
    record: dict[str, Any],
    table: dict[str, tuple[float, float, float]],
    target: Path,
    name: str = "micro-clip",
    architecture: dict[str, Any] = ARCHITECTURE,
    card: str | None = None,
) -> None:
    """Write config.json, vocab.txt, weights.safetensors and MODEL_CARD.md."""
    target.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, target / "weights.safetensors", metadata={"format": "pt"})
    (target / "weights.safetensors").chmod(0o644)
    record["weights_sha256"] = hashlib.sha256((target / "weights.safetensors").read_bytes()).hexdigest()
    config = {
        "name": name,
        **architecture,
        "preprocess_cfg": {"size": SIZE, "mean": MEAN, "std": STD, "mode": "RGB", "interpolation": "bicubic"},
        "training": record,
    }
    (target / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (target / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    rows = "\n".join(f"| {name} | {s:.3f} | {r:.3f} | {c:.3f} |" for name, (s, r, c) in table.items())
    parameters = sum(p.numel() for p in model.parameters())
    text = (card or CARD).format(rows=rows, millions=parameters / 1e6, **record)
    (target / "MODEL_CARD.md").write_text(text, encoding="utf-8")


CARD = """# micro-clip

The runner's default encoder: a dual encoder of {millions:.2f} M parameters with the layers of open_clip's `CLIP`. The
image side is three convolutions and a vision transformer on their 8 x 8 grid, the text side a causal transformer over
{words} words. It was trained only on images and texts that `eqben_builder.micro` makes. It has seen no photograph, no
web text and nobody's data, and knows nothing outside that world. Use it to exercise a pipeline without a download, and
as a small model whose training set is known to the last pixel. Do not use it as a vision model. Licence: MIT, like the
code.

## Scores

On held-out seeds (500,000 to 599,999), which neither training (1,000,000 and above) nor any benchmark of the runner
(below 100,000) uses. "Random" is the same architecture with random weights, from seed 0.

| score | micro-clip | random | chance |
|---|---|---|---|
{rows}

Zero-shot rows: 1,000 scenes of one object (counting: 600), prompts "a photo of a ...". Retrieval: 500 scenes of one
to three objects, fully described. Group scores: 500 certified minimal pairs a kind, strict inequalities. Minimal
pairs were not trained on.

## Training

Steps: {steps} of {batch} fresh pairs, {pairs:,} in all. The first {easy_pairs:,} pairs show one or two objects, the
rest up to eight. Loss: CLIP's contrastive loss. Optimiser: AdamW with a peak learning rate of {lr}, {warm_up} warm-up
steps, linear decay over the last {decay}, and weight decay 0.05 on matrices, in {precision}. Augmentation: noise up to
0.1 and brightness from 0.75 to 1.25. It took {minutes:.0f} minutes with {threads} threads on {hardware}, shared with
other work (Python {python}, torch {torch}, open_clip {open_clip}, numpy {numpy}).

To train it again, from the repository's root:

    python packages/gate-runner/training/train_micro_clip.py --work-dir runs/micro-clip --export

Every step depends on its number and the seed alone. The run may be interrupted and started again with the same command,
and gives the same bytes on the same machine, whatever the number of threads; another processor or torch version
rounds differently. SHA-256 of weights.safetensors: `{weights_sha256}`.
"""


def hardware() -> str:
    """Number of cores and the processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {names[0] if names else platform.processor() or platform.machine()}"


def parsed(about: str | None, *, steps: int, decay: int, lr: float, warm_up: int) -> argparse.Namespace:
    """Return the arguments of a training, its work directory made."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work-dir", type=Path, required=True, help="holds the checkpoint, to go on from")
    parser.add_argument("--steps", type=int, default=steps, help="in all; may change until the decay begins")
    parser.add_argument("--decay", type=int, default=decay, help="steps of falling learning rate at the end")
    parser.add_argument("--until", type=int, default=10**9, help="stop after this step, to be continued later")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--warm-up", type=int, default=warm_up)
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--report-every", type=int, default=25)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--export", action="store_true", help="write into the package, not the work directory")
    arguments = parser.parse_args()
    arguments.work_dir.mkdir(parents=True, exist_ok=True)
    return arguments


def recorded(
    arguments: argparse.Namespace, seconds: float, table: dict[str, tuple[float, float, float]]
) -> dict[str, Any]:
    """Return how a model was trained, on what, and its scores."""
    import open_clip

    names = ("steps", "batch", "lr", "warm_up", "decay", "seed", "threads", "precision")
    return {name: getattr(arguments, name) for name in names} | {
        "pairs": min(arguments.steps, arguments.until) * arguments.batch,
        "minutes": round(seconds / 60, 1),
        "hardware": hardware(),
        "words": len(VOCABULARY),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "open_clip": open_clip.__version__,
        "numpy": np.__version__,
        "scores": {name: round(score, 4) for name, (score, _, _) in table.items()},
    }


def beside_random(
    trained: dict[str, tuple[float, float]], random: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float, float]]:
    """Return each score with that of random weights and chance, and print them."""
    table = {name: (score, random[name][0], chance) for name, (score, chance) in trained.items()}
    for name, (score, untrained, chance) in table.items():
        print(f"{name:45s} {score:.3f}   random weights {untrained:.3f}   chance {chance:.3f}")
    return table


def as_shipped(model: nn.Module) -> nn.Module:
    """Return a model with its weights rounded to float16, whose scores are those of what is shipped."""
    model.load_state_dict({name: tensor.half().float() for name, tensor in model.state_dict().items()})
    return model


def main() -> None:
    arguments = parsed(__doc__, steps=1050, decay=300, lr=1e-3, warm_up=100)
    tokenizer = MicroTokenizer(VOCABULARY, MODEL_CFG["text_cfg"]["context_length"])
    model, seconds = train(arguments, tokenizer)
    trained = evaluate(as_shipped(model), tokenizer)
    table = beside_random(trained, evaluate(build_micro_clip(ARCHITECTURE, 0).eval(), tokenizer))
    record = recorded(arguments, seconds, table) | {
        "easy_pairs": EASY_PAIRS,
        "training_seeds": [TRAINING_SEED, TRAINING_SEED + 1],
        "held_out_seeds": [HELD_OUT_SEED, HELD_OUT_SEED + 3],
    }
    export(model, record, table, FILES if arguments.export else arguments.work_dir)


if __name__ == "__main__":
    main()
