"""Does EqSim help? Fine-tunes micro-clip with seven losses and scores held-out minimal pairs and retrieval.

    python experiments/eqsim_proof.py            # five seeds; the same command continues where it stopped

Every method is the contrastive loss plus a weight times one term, trained for the same steps on the same batches from
the same weights. The last transformer block, the norm after it and the projection of both towers are trained, and the
logit scale; the blocks below are fixed, so their output is computed once for each seed's data. A weight is set as a
ratio: the norm of the term's gradient with respect to the features over the contrastive loss's, on the first batch, so
that every term pulls equally hard. With --tune the ratio of each method is chosen from `RATIOS` by group accuracy on a
validation set, on a seed of its own.

Scenes, captions and pairs come from `eqben_builder.micro`; no minimal pair is trained on. Results are written after
every run to results/eqsim_proof.json, and the table to results/eqsim_proof.md.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import math
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from eqben_builder.micro import KINDS, caption, generator_at, minimal_pair, render, scene_at
from eqben_builder.scoring import winoground_scores
from eqsim import CyclicLoss, EqSimLoss, TopK
from gate_runner.encoders.micro_clip import FILES, load_micro_clip

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).with_name("results")
RATIOS = (0.25, 1.0, 4.0)
VALIDATION_SEED, TEST_SEED = 610_000, 620_000
TRAIN_SEED, TUNING_SEED = 800_000, 899_999
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
LABELS = {"attribute": "attribute", "count": "counting", "relation": "location"}


def contrastive(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    logits = scale * image @ text.T
    labels = torch.arange(len(image))
    return (torch.nn.functional.cross_entropy(logits, labels) + torch.nn.functional.cross_entropy(logits.T, labels)) / 2


def hardest_negatives(image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """VSE++'s hinge on the hardest negative of the batch, both ways, margin 0.2."""
    scores = image @ text.T
    own = scores.diagonal()
    others = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -1.0)
    return sum((torch.relu(0.2 + others.amax(dim) - own)).mean() for dim in (0, 1))


METHODS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None] = {
    "contrastive": None,
    "+ hard negatives": hardest_negatives,
    "+ CyCLIP": CyclicLoss(reduction="mean"),
    "+ EqSim v1, all": EqSimLoss("v1"),
    "+ EqSim v2, all": EqSimLoss("v2"),
    "+ EqSim v2, close": EqSimLoss("v2", close=TopK(k=4)),
    "+ EqSim hybrid": EqSimLoss("hybrid", close=TopK(k=4)),
}


class Tail(torch.nn.Module):
    """The trained part of both towers, on the output of the blocks below; exact, for the one token that is pooled."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.image_block = copy.deepcopy(model.visual.transformer.resblocks[-1])
        self.image_norm = copy.deepcopy(model.visual.ln_post)
        self.image_projection = torch.nn.Parameter(model.visual.proj.detach().clone())
        self.text_block = copy.deepcopy(model.transformer.resblocks[-1])
        self.text_norm = copy.deepcopy(model.ln_final)
        self.text_projection = torch.nn.Parameter(model.text_projection.detach().clone())
        self.log_scale = torch.nn.Parameter(model.logit_scale.detach().clone())

    def forward(self, tokens: torch.Tensor, words: torch.Tensor, ends: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return unit image features, unit text features and the scale."""
        return self.image(tokens), self.text(words, ends), self.log_scale.clamp(max=math.log(100)).exp()

    def image(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return unit features of the class token."""
        pooled = last_block(self.image_block, tokens, torch.zeros(len(tokens), dtype=torch.long), None)
        return torch.nn.functional.normalize(self.image_norm(pooled) @ self.image_projection, dim=1)

    def text(self, words: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Return unit features of the end token, which sees what stands before it."""
        later = torch.arange(words.shape[1])[None] > ends[:, None]
        pooled = last_block(self.text_block, words, ends, later)
        return torch.nn.functional.normalize(self.text_norm(pooled) @ self.text_projection, dim=1)


def last_block(block: Any, tokens: torch.Tensor, at: torch.Tensor, ignored: torch.Tensor | None) -> torch.Tensor:
    """A residual attention block's output at one position of each row."""
    rows = torch.arange(len(tokens))
    normed = block.ln_1(tokens)
    attended, _ = block.attn(normed[rows, at][:, None], normed, normed, key_padding_mask=ignored, need_weights=False)
    x = tokens[rows, at] + block.ls_1(attended[:, 0])
    return x + block.ls_2(block.mlp(block.ln_2(x)))


@dataclass
class Inputs:
    """What enters the last block: image tokens, text tokens, and where each text ends."""

    tokens: torch.Tensor
    words: torch.Tensor
    ends: torch.Tensor

    def rows(self, picked: slice) -> tuple[torch.Tensor, ...]:
        """Return some rows, in float32."""
        return self.tokens[picked].float(), self.words[picked].float(), self.ends[picked]


@torch.no_grad()
def encode_below(model: Any, tokenizer: Any, images: np.ndarray, texts: list[str], batch: int = 64) -> Inputs:
    """Run every block but the last."""
    caught: dict[str, torch.Tensor] = {}

    def stop_at(name: str) -> Callable[..., None]:
        def hook(_: Any, arguments: tuple[torch.Tensor, ...]) -> None:
            caught[name] = arguments[0]

        return hook

    towers = {"image": model.visual.transformer, "text": model.transformer}
    hooks = [tower.resblocks[-1].register_forward_pre_hook(stop_at(name)) for name, tower in towers.items()]
    mean, std = (torch.tensor(getattr(model.visual, name)).view(1, 3, 1, 1) for name in ("image_mean", "image_std"))
    found: dict[str, list[torch.Tensor]] = {"image": [], "text": []}
    ids = tokenizer(texts)
    for start in range(0, len(images), batch):
        pixels = torch.from_numpy(images[start : start + batch]).permute(0, 3, 1, 2).float() / 255
        with torch.autocast("cpu", torch.bfloat16):
            model.encode_image((pixels - mean) / std)
            model.encode_text(ids[start : start + batch])
        for name, kept in found.items():
            kept.append(caught[name].to(torch.bfloat16))
    for hook in hooks:
        hook.remove()
    ends = (ids == tokenizer.end_id).int().argmax(dim=1)
    return Inputs(torch.cat(found["image"]), torch.cat(found["text"]), ends)


def check_tail(model: Any, tokenizer: Any) -> None:
    """Stop unless the tail on caught tokens is the model itself (up to the bfloat16 of what was caught)."""
    scenes = [scene_at(TRAIN_SEED, index, (1, 3)) for index in range(8)]
    images = render(scenes).images
    texts = [caption(scene, generator_at(TRAIN_SEED + 1, index)) for index, scene in enumerate(scenes)]
    tail = Tail(model).eval()
    with torch.no_grad():
        ours = tail(*encode_below(model, tokenizer, images, texts).rows(slice(None)))
        mean, std = (torch.tensor(getattr(model.visual, name)).view(1, 3, 1, 1) for name in ("image_mean", "image_std"))
        pixels = (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - mean) / std
        theirs = model.encode_image(pixels, normalize=True), model.encode_text(tokenizer(texts), normalize=True)
    for name, mine, whole in zip(("image", "text"), ours, theirs, strict=False):
        distance = float((mine - whole).norm(dim=1).max())
        if distance > 0.1:
            msg = f"{name} features of the last block differ from the model's by {distance:.3g}, expected < 0.1"
            raise RuntimeError(msg)


def training_data(model: Any, tokenizer: Any, seed: int, count: int) -> Inputs:
    scenes = [scene_at(seed, index, (1, 4)) for index in range(count)]
    texts = [caption(scene, generator_at(seed + 100_000, index)) for index, scene in enumerate(scenes)]
    images = np.concatenate([render(scenes[start : start + 256]).images for start in range(0, count, 256)])
    return encode_below(model, tokenizer, images, texts)


@dataclass
class Evaluation:
    """Held-out minimal pairs of each kind (scene 0 and 1 alternate), and scenes with captions for retrieval."""

    pairs: dict[str, Inputs]
    retrieval: Inputs
    same_text: torch.Tensor


def evaluation_data(model: Any, tokenizer: Any, seed: int, pairs: int, retrieval: int) -> Evaluation:
    found = {}
    for number, kind in enumerate(KINDS):
        drawn = [minimal_pair(generator_at(seed + number, index), kind) for index in range(pairs)]
        images = render([scene for pair in drawn for scene in (pair.scene0, pair.scene1)]).images
        texts = [text for pair in drawn for text in (pair.caption0, pair.caption1)]
        found[kind] = encode_below(model, tokenizer, images, texts)
    scenes = [scene_at(seed + 10, index, (1, 3)) for index in range(retrieval)]
    texts = [caption(scene, generator_at(seed + 11, index), kind="exists") for index, scene in enumerate(scenes)]
    same = torch.tensor([[left == right for right in texts] for left in texts])
    return Evaluation(found, encode_below(model, tokenizer, render(scenes).images, texts), same)


@torch.no_grad()
def evaluate(tail: Tail, data: Evaluation) -> dict[str, float]:
    """Group accuracy by kind and recall at 1; a caption that occurs twice is right for both its scenes."""
    tail.eval()
    scores: dict[str, float] = {}
    for kind, inputs in data.pairs.items():
        image, text, _ = tail(*inputs.rows(slice(None)))
        by_pair = torch.einsum("kcd,kid->kci", text.view(-1, 2, text.shape[1]), image.view(-1, 2, image.shape[1]))
        found = winoground_scores(by_pair.double().numpy(), resamples=1)
        scores[f"group/{kind}"] = found.group.value
        scores[f"text/{kind}"], scores[f"image/{kind}"] = found.text.value, found.image.value
    image, text, _ = tail(*data.retrieval.rows(slice(None)))
    similar = image @ text.T
    rows = torch.arange(len(similar))
    scores["retrieval/image to text"] = float(data.same_text[rows, similar.argmax(dim=1)].float().mean())
    scores["retrieval/text to image"] = float(data.same_text[similar.argmax(dim=0), rows].float().mean())
    scores["group/mean"] = statistics.fmean(scores[f"group/{kind}"] for kind in KINDS)
    return scores


def gradient_norm(loss: torch.Tensor, features: tuple[torch.Tensor, ...]) -> float:
    grads = torch.autograd.grad(loss, features, retain_graph=True)
    return float(torch.stack([grad.square().sum() for grad in grads]).sum().sqrt())


def fine_tune(model: Any, method: str, ratio: float, data: Inputs, seed: int, settings: argparse.Namespace) -> Any:
    """Train a fresh tail; returns it, the term's weight, and the processor seconds that the steps took."""
    tail = Tail(model).train()
    term = METHODS[method]
    decayed = [value for value in tail.parameters() if value.ndim >= 2]
    plain = [value for value in tail.parameters() if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=settings.lr, betas=(0.9, 0.98))
    order = torch.randperm(len(data.ends), generator=torch.Generator().manual_seed(seed))
    weight = 0.0
    start = time.process_time()
    for step in range(settings.steps):
        for group in optimiser.param_groups:
            group["lr"] = settings.lr * min(1.0, (step + 1) / 5) * (1 + math.cos(math.pi * step / settings.steps)) / 2
        picked = order[step * settings.batch : (step + 1) * settings.batch]
        image, text, scale = tail(*(value[picked].float() for value in (data.tokens, data.words)), data.ends[picked])
        loss = contrastive(image, text, scale)
        if term is not None:
            extra = term(image, text)
            if step == 0:
                own = gradient_norm(extra, (image, text))
                if own == 0.0:
                    msg = f"{method} has no gradient on the first batch"
                    raise RuntimeError(msg)
                weight = ratio * gradient_norm(loss, (image, text)) / own
            loss = loss + weight * extra
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return tail, weight, time.process_time() - start


class Ledger:
    """Finished runs on disk, replaced as a whole after each."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            self.rows = stored["rows"] if stored["settings"] == settings else []
        self.settings = settings

    def find(self, stage: str, method: str, seed: int, ratio: float | None = None) -> dict[str, Any] | None:
        """Return the stored row of a run, or None."""
        for row in self.rows:
            if (row["stage"], row["method"], row["seed"]) == (stage, method, seed) and ratio in (None, row["ratio"]):
                return row
        return None

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row, on disk too, and print it."""
        self.rows.append(row)
        content = json.dumps({"settings": self.settings, "machine": machine(), "rows": self.rows}, indent=1)
        part = self.path.with_suffix(".part")
        part.write_text(content + "\n", encoding="utf-8")
        part.replace(self.path)
        print(f"{row['stage']:<8}{row['method']:<20}seed {row['seed']:<7}ratio {row['ratio']:<5}", end=" ")
        print(f"group {row['scores']['group/mean']:.3f}, {row['seconds']:.1f} s", flush=True)


def machine() -> dict[str, str]:
    model = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "")
    return {
        "processor": model.partition(":")[2].strip(),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def interval(values: list[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval by Student's t."""
    if len(values) < 2:
        return values[0], math.nan
    return statistics.fmean(values), T_95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def table(ledger: Ledger, seeds: list[int]) -> str:
    """The table in Markdown: means over the seeds that every method has, with intervals, in per cent."""
    done = [seed for seed in seeds if all(ledger.find("test", method, seed) for method in METHODS)]
    if not done:
        return "No seed is complete yet.\n"
    columns = [f"group/{kind}" for kind in KINDS] + ["group/mean", "retrieval/image to text", "retrieval/text to image"]
    heads = [LABELS[kind] for kind in KINDS] + ["mean", "image to text", "text to image", "mean, against contrastive"]
    lines = ["| method | ratio | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    before = ledger.find("test", "before", 0)
    if before:
        cells = [f"{100 * before['scores'][column]:.1f}" for column in columns]
        lines.append("| before | - | " + " | ".join(cells) + " | |")
    base = [ledger.find("test", "contrastive", seed) for seed in done]
    for method in METHODS:
        rows = [ledger.find("test", method, seed) for seed in done]
        cells = []
        for column in columns:
            mean, half = interval([100 * row["scores"][column] for row in rows])
            cells.append(f"{mean:.1f} ± {half:.1f}")
        pairs = zip(rows, base, strict=True)
        mean, half = interval([100 * (row["scores"]["group/mean"] - own["scores"]["group/mean"]) for row, own in pairs])
        cells.append("" if method == "contrastive" else f"{mean:+.1f} ± {half:.1f}")
        ratio = "-" if method == "contrastive" else f"{rows[0]['ratio']:g}"
        lines.append(f"| {method} | {ratio} | " + " | ".join(cells) + " |")
    settings = ledger.settings
    lines.append("")
    lines.append(
        f"Group accuracy in per cent on {settings['pairs']} held-out minimal pairs of each kind (chance 16.7), recall "
        f"at 1 among {settings['retrieval']} scenes; mean over {len(done)} seeds of data and order ± half of the 95 % "
        f"interval (Student's t), differences paired by seed. {settings['steps']} steps of {settings['batch']} for "
        "every method. Ratio: norm of the term's gradient over the contrastive one's on the first batch, "
        + ("chosen on validation pairs." if settings["tune"] else "the same for every method, not tuned.")
    )
    lines.append(
        f"Weights {settings['weights'][:12]}; {machine()['processor']}, one thread, torch {torch.__version__}. Made "
        "by `experiments/eqsim_proof.py`."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--pairs", type=int, default=250)
    parser.add_argument("--retrieval", type=int, default=300)
    parser.add_argument("--ratio", type=float, default=1.0, help="of every method, unless --tune is given")
    parser.add_argument("--tune", action="store_true", help="choose each method's ratio on validation pairs")
    parser.add_argument("--output", type=Path, default=RESULTS / "eqsim_proof.json")
    settings = parser.parse_args()
    if not 2 <= settings.seeds <= 10:
        parser.error(f"--seeds {settings.seeds}: expected 2 to 10")
    torch.set_num_threads(1)
    weights = hashlib.sha256((FILES / "weights.safetensors").read_bytes()).hexdigest()
    kept = {
        name: value
        for name, value in vars(settings).items()
        if isinstance(value, bool | int | float) and name != "seeds"
    }
    ledger = Ledger(settings.output, kept | {"weights": weights})
    model, tokenizer = load_micro_clip()
    check_tail(model, tokenizer)
    count = settings.steps * settings.batch

    if settings.tune:
        chosen = tune(ledger, model, tokenizer, count, settings)
    else:
        chosen = dict.fromkeys(METHODS, settings.ratio)
    test = evaluation_data(model, tokenizer, TEST_SEED, settings.pairs, settings.retrieval)
    if ledger.find("test", "before", 0) is None:
        ledger.add(_row("test", "before", 0, 0.0, 0.0, 0.0, evaluate(Tail(model), test)))
    seeds = list(range(settings.seeds))
    for seed in seeds:
        missing = [method for method in METHODS if ledger.find("test", method, seed) is None]
        data = training_data(model, tokenizer, TRAIN_SEED + seed, count) if missing else None
        for method in missing:
            ratio = 0.0 if METHODS[method] is None else chosen[method]
            tail, weight, seconds = fine_tune(model, method, ratio, data, seed, settings)
            ledger.add(_row("test", method, seed, ratio, weight, seconds, evaluate(tail, test)))
        settings.output.with_suffix(".md").write_text(table(ledger, seeds), encoding="utf-8")
    print(table(ledger, seeds))


def tune(ledger: Ledger, model: Any, tokenizer: Any, count: int, settings: argparse.Namespace) -> dict[str, float]:
    """Choose each method's ratio by validation pairs, on training data that no reported run uses."""
    regularised = [method for method, term in METHODS.items() if term is not None]
    wanted = [(method, ratio) for method in regularised for ratio in RATIOS]
    missing = [pair for pair in wanted if ledger.find("tune", pair[0], 0, pair[1]) is None]
    if missing:
        data = training_data(model, tokenizer, TUNING_SEED, count)
        validation = evaluation_data(model, tokenizer, VALIDATION_SEED, settings.pairs, settings.retrieval)
        for method, ratio in missing:
            tail, weight, seconds = fine_tune(model, method, ratio, data, 0, settings)
            ledger.add(_row("tune", method, 0, ratio, weight, seconds, evaluate(tail, validation)))
    chosen = {}
    for method in regularised:
        rows = [ledger.find("tune", method, 0, ratio) for ratio in RATIOS]
        best = max(rows, key=lambda row: row["scores"]["group/mean"])
        chosen[method] = best["ratio"]
        if ledger.find("chosen", method, 0) is None:
            ledger.add(best | {"stage": "chosen"})
    return chosen


def _row(
    stage: str, method: str, seed: int, ratio: float, weight: float, seconds: float, scores: dict[str, float]
) -> dict[str, Any]:
    numbers = {"ratio": ratio, "weight": round(weight, 6), "seconds": round(seconds, 2)}
    return {"stage": stage, "method": method, "seed": seed, **numbers, "scores": scores}


if __name__ == "__main__":
    main()
