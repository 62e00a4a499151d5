"""Zero-shot segmentation: each patch's cosine with the words of classes, by a preset; nothing is trained."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gate_data.data import Split
from gate_data.pictures import content_digests
from gate_runner.errors import MissingCapabilityError, UsageError
from gate_runner.tasks.features import Embedder
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import mistaken
from gate_runner.tasks.segmenting import beside, counts
from gate_runner.tasks.segmenting.answers import Answer, answer
from gate_runner.tasks.segmenting.native import checked, image_at, truth_at
from gate_runner.tasks.segmenting.presets import Preset, find_preset
from gate_runner.tasks.segmenting.windows import Cutting, Scored, Scorer
from gate_runner.tasks.segmenting.words import Words, background_of, list_of, words_of
from knowledge_prompts.class_words import ClassWords, words_by_content, words_in
from knowledge_prompts.encoding.distinct import indistinct_classes
from vision_adapters.losses import IGNORED
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.patch_features import find_variant
from vision_features.encoders.surgery import Surgery

if TYPE_CHECKING:
    from jaxtyping import Float

_LOG = logging.getLogger(__name__)
VALIDATED = 200
"""Validation images on which a threshold is chosen, at most."""
_PICTURES, _DRAWN = 10, 160
"""Best and worst images whose answers are kept for reports, each, and the pixels of their longer side, at most."""
_SCALE = 100.0
"""Of an encoder that names no scale of its own: CLIP's."""


class Setting(NamedTuple):
    """All that a score depends on besides encoder and data."""

    preset: Preset
    cutting: Cutting
    scale: float
    words: Words
    weights: Float[Tensor, "w d"]
    templates: tuple[str, ...]
    threshold: str  # "none", "validation" or a number
    refine: str


def run(job: Job) -> Outcome:
    """Classes of pixels by words, at the size that images have in their files.

    Chance: at each place, the class that training shows there most often.
    """
    encoder, data, name = job.encoder, job.data, str(job.training.get("features", "sclip"))
    if encoder.text is None:
        raise MissingCapabilityError(f"encoder {encoder.spec!r} has no text side; zero-shot segmentation needs one")
    variant = find_variant(name)
    proxy = _proxy(job) if variant.proxy else None
    surgery = Surgery(encoder)
    setting = _setting(job, data.classes)
    of_class = torch.tensor(setting.words.of_class)
    if unclear := indistinct_classes(setting.weights.numpy(), setting.words.words):
        _LOG.warning("%s: %s", job.benchmark.id, unclear)
    scorer = Scorer(surgery, variant, setting.weights, setting.cutting, job.settings.batch_size, proxy)
    with job.timed("train"):
        head = beside.trained_head(scorer, data.train, len(data.classes), job.seed)
    rule, threshold = setting.threshold, 0.0
    validated: list[tuple[float, float]] = []
    if rule == "validation":
        threshold, validated = _chosen(job, scorer, setting)
    elif rule != "none":
        threshold = float(rule)
    with job.timed("data"):
        blind, blind_of = beside.blind_map(data, len(data.classes))
    tested = _tested(job, scorer, setting, threshold, head, blind, of_class)
    background = setting.words.background
    metrics = tuple(metric for metric in job.benchmark.metrics if metric != "miou_things")
    scores = counts.scores(tested.counts["answer"], tested.counts["blind"], metrics, background, job.seed)
    by_class = counts.by_class(tested.counts["answer"], data.classes, job.seed)
    absent = [row["class"] for row in by_class if not row["pixels"]]
    if absent:
        _LOG.warning("%s: no test pixel is %s: left out of the mean", job.benchmark.id, ", ".join(absent[:8]))
    line = _line(job, setting, name, threshold, proxy)
    training = {
        "steps": 0,
        "features": name,
        "source": variant.source,
        "preset": setting.preset.name,
        "preset_source": setting.preset.source,
        "setting": line,
        "used": used(setting.refine, proxy),
        "templates": list(setting.templates),
        "words": {"number": len(setting.words.words), "source": setting.words.source, "digest": setting.words.digest},
        "threshold": {
            "rule": rule,
            "value": threshold,
            "curve": [list(point) for point in tested.curve],
            "validation": [list(point) for point in validated],
        },
        "beside": {
            "blind": {"miou": counts.interval(tested.counts["blind"], job.seed), "how": blind_of},
            "whole_image": {"miou": counts.interval(tested.counts["whole"], job.seed)},
            **(
                {"trained_head": {"miou": counts.interval(tested.counts["head"], job.seed), "images": head.images}}
                if head is not None
                else {}
            ),
        },
        "by_class_iou": by_class,
        "absent": absent,
        "drawn": tested.drawn,
        **({"told_apart": unclear} if unclear else {}),
    }
    return Outcome(scores, tested.counts["answer"], training, tested.mistakes)


def _setting(job: Job, classes: tuple[str, ...]) -> Setting:
    """Return the preset with what the settings change in it, the words, and their vectors."""
    settings, training = job.settings, job.training
    preset = find_preset(settings.preset).of_set(str(training.get("protocol_set", "")))
    wording = words_in(training) or ClassWords()
    templates = preset.templates or wording.templates
    background = background_of(training, classes)
    protocol_set = str(training.get("protocol_set", ""))
    published = preset.words.get(protocol_set, "")
    given = None if settings.class_words is None else Path(settings.class_words)
    file = list_of(given, protocol_set)
    words = words_of(
        classes,
        file=file,
        synonyms=training.get("synonyms"),
        background=background,
        by_threshold=settings.background == "threshold",
        wording=wording,
        published=published,
    )
    if published:
        same = published == words.digest
        source = f"{words.source}, the preset's own" if same else f"{words.source}, not the preset's published list"
        words = replace(words, source=source)
    threshold = settings.background_threshold
    if threshold == "preset":
        threshold = f"{preset.threshold:g}" if preset.threshold and words.background is not None else "none"
    elif threshold == "validation" and words.background is None:
        threshold = "none"  # a pack has sets with a background and sets without
    if threshold not in ("none", "0") and words.background is None:
        raise UsageError(f"background_threshold={threshold} needs a background class; {job.benchmark.id} has none")
    if settings.background == "threshold" and threshold in ("none", "0"):
        raise UsageError("background=threshold needs a threshold: background_threshold=validation, or a number")
    with job.timed("encode"):
        weights, texts = _embedded(job, words, replace(wording, templates=templates))
    cutting = Cutting.of(preset, job.encoder)
    scale = preset.scale or job.encoder.logit_scale or _SCALE
    refine = preset.refine if settings.refine == "preset" else settings.refine
    return Setting(preset, cutting, float(scale), words, weights, texts, threshold, refine)


_EMBEDDED: dict[tuple[Any, ...], tuple[Tensor, tuple[str, ...]]] = {}
"""Vectors of words that other kinds of patch features, in this process, need as well: the last few."""
_REMEMBERED = 4


def _embedded(job: Job, words: Words, wording: ClassWords) -> tuple[Tensor, tuple[str, ...]]:
    """Return the vectors of words, encoded once for all results of the same encoder, words and templates."""
    encoder = job.encoder.opened or job.encoder
    contents = json.dumps(words_by_content(vars(wording), content_digests))  # files may change under their names
    key = (encoder.spec, encoder.fingerprint(), encoder.code, words.words, contents)
    if key[1] is None or key not in _EMBEDDED:
        weights, texts = words.embedded(Embedder(job.encoder.encode_text), wording)
        if key[1] is None:
            return weights, texts
        while len(_EMBEDDED) >= _REMEMBERED:
            del _EMBEDDED[next(iter(_EMBEDDED))]
        _EMBEDDED[key] = (weights, texts)
    return _EMBEDDED[key]


def _proxy(job: Job) -> Encoder:
    """Return the second encoder."""
    from vision_features.encoders import load_encoder

    spec = job.settings.proxy
    if spec is None:
        raise UsageError(
            "patch features 'proxyclip' need a second encoder: --setting proxy=SPEC, e.g. timm:vit_base_patch8_224.dino"
        )
    key = f"second encoder {spec}"
    if key not in job.shared:
        proxy = load_encoder(spec, device=str(job.encoder.device))
        if proxy.patches is None:
            raise MissingCapabilityError(f"second encoder {spec!r} gives no patch features")
        job.shared[key] = proxy
    encoder: Encoder = job.shared[key]
    return encoder


def used(refine: str, proxy: Encoder | None) -> str:
    """Return what else than the encoder and the words a score rests on."""
    parts = [f"second encoder {proxy.spec}"] if proxy is not None else []
    parts += ["PAMR"] if refine == "pamr" else []
    return ", ".join(parts) or "nothing else"


def _line(job: Job, setting: Setting, name: str, threshold: float, proxy: Encoder | None) -> str:
    """Return the whole setting in one line that could stand in a paper."""
    preset, cutting = setting.preset, setting.cutting
    windows = f"windows of {cutting.window}, stride {cutting.stride}" if cutting.window else "whole images"
    rules = {"none": "no threshold", "validation": f"threshold {threshold:g} (chosen on validation)"}
    rule = rules.get(setting.threshold, f"threshold {threshold:g} (fixed)")
    area = f", classes below {preset.least_area:g} of an image dropped" if preset.least_area else ""
    count = len(setting.templates)
    return (
        f"{job.encoder.spec}, {name}, preset {preset.name}: short side {cutting.side} (long at most 2048), {windows}, "
        f"scale {setting.scale:.4g}, {setting.words.sentence}, {count} template{'s' * (count != 1)}, {rule}{area}, "
        f"refinement {setting.refine}, also used: {used(setting.refine, proxy)}; mIoU over "
        f"{len(job.data.test):,} image{'s' * (len(job.data.test) != 1)}"
    )


def _answered(scored: Scored, image: Tensor, setting: Setting, of_class: Tensor, words: slice) -> Answer:
    return answer(
        scored,
        of_class,
        setting.scale,
        words=words,
        image=image if setting.refine == "pamr" else None,
        least_area=setting.preset.least_area,
        background=setting.words.background,
    )


def _walk(split: Split[Any], numbers: list[int], scorer: Scorer) -> Iterator[tuple[int, Tensor, Tensor, Scored]]:
    """Yield the number, image, class map and scores of some samples."""
    held: list[tuple[int, Tensor, Tensor]] = []

    def images() -> Iterator[Tensor]:
        for index in numbers:
            image, truth = image_at(split, index), truth_at(split, index)
            checked(split, index, image, truth)
            held.append((index, image, truth))
            yield image

    for scored in scorer.over(images()):
        index, image, truth = held.pop(0)
        yield index, image, truth, scored


def _chosen(job: Job, scorer: Scorer, setting: Setting) -> tuple[float, list[tuple[float, float]]]:
    """Return the threshold that is best on validation images, and the curve there."""
    split = job.data.validation
    if not len(split):
        raise UsageError(f"background_threshold=validation: {job.benchmark.id} has no validation images")
    assert setting.words.background is not None
    curve = counts.Curve(len(job.data.classes), setting.words.background)
    of_class = torch.tensor(setting.words.of_class)
    numbers = beside.some(split, VALIDATED)
    with job.timed("train"):
        for done, (_, image, truth, scored) in enumerate(_walk(split, numbers, scorer), start=1):
            given = _answered(scored, image, setting, of_class, slice(None))
            curve.add(given.classes, given.confidence, truth)
            job.progress("threshold", done, len(numbers))
    return curve.best(), curve.points()


class _Tested(NamedTuple):
    """What the test split gave."""

    counts: dict[str, np.ndarray]  # of each way to answer, pixels by image [n, 3, k]
    curve: list[tuple[float, float]]
    mistakes: np.ndarray
    drawn: dict[str, str]


def _tested(
    job: Job,
    scorer: Scorer,
    setting: Setting,
    threshold: float,
    head: beside.TrainedHead | None,
    blind: Tensor,
    of_class: Tensor,
) -> _Tested:
    """Answer every test image once, and count pixels."""
    split, classes = job.data.test, len(job.data.classes)
    number, background = len(of_class), setting.words.background
    if head is not None:  # words and head in one pass over the patches
        bias = torch.cat([torch.zeros(number), head.bias])
        weights = torch.cat([setting.weights, head.weights])
        scorer = scorer.with_weights(weights, bias)
    rows: dict[str, list[np.ndarray]] = {"answer": [], "blind": [], "whole": [], **({"head": []} if head else {})}
    mistakes, extremes = [], _Kept()
    curve = None if background is None else counts.Curve(classes, background)
    whole = beside.whole_classes(job, setting.weights, of_class)
    with job.timed("test"):
        for index, image, truth, scored in _walk(split, list(range(len(split))), scorer):
            given = _answered(scored, image, setting, of_class, slice(0, number))
            final = given.above(threshold, background)
            shape = (int(truth.shape[0]), int(truth.shape[1]))
            answers = {"answer": final, "blind": beside.on(blind, shape), "whole": torch.full(shape, int(whole[index]))}
            if head is not None:
                answers["head"] = answer(scored, torch.arange(classes), 1.0, words=slice(number, None)).classes
            for name, each in answers.items():
                rows[name].append(counts.pixels(each, truth, classes))
            if curve is not None:
                curve.add(given.classes, given.confidence, truth)
            mistakes.append(mistaken(final[None], _known(truth)[None], classes)[0])
            extremes.offer(index, rows["answer"][-1], final)
            job.progress("test", index + 1, len(split))
    together = {name: np.stack(part) for name, part in rows.items()}
    return _Tested(together, [] if curve is None else curve.points(), np.stack(mistakes), extremes.drawn())


def _known(truth: Tensor) -> Tensor:
    """Return a map whose places that count nowhere are negative."""
    return torch.where(truth == IGNORED, -1, truth.long())


class _Kept:
    """The answers of the best and the worst images so far."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, int, Tensor]] = []

    def offer(self, index: int, pixels: np.ndarray, final: Tensor) -> None:
        """Keep an answer while it is among the best or the worst."""
        value = float(counts.of_images(pixels[None])[0])
        if not np.isfinite(value):
            return
        step = max(1, -(-max(final.shape) // _DRAWN))
        self.rows.append((value, index, final[::step, ::step].to(torch.uint8)))
        if len(self.rows) > 4 * _PICTURES:
            self.rows = self._ends()

    def _ends(self) -> list[tuple[float, int, Tensor]]:
        ordered = sorted(self.rows, key=lambda row: (row[0], row[1]))
        return ordered if len(ordered) <= 2 * _PICTURES else ordered[:_PICTURES] + ordered[-_PICTURES:]

    def drawn(self) -> dict[str, str]:
        """Return answers as PNG files in base64, by the image's number."""
        files = {}
        for _, index, final in self._ends():
            buffer = io.BytesIO()
            Image.fromarray(final.numpy()).save(buffer, "PNG", optimize=True)
            files[str(index)] = base64.b64encode(buffer.getvalue()).decode("ascii")
        return files
