"""A look at an encoder's features: neighbours of the hardest images, a map of the test split, what places show."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gate_data.imports import named
from gate_data.original_files import GROUP
from gate_data.ragged import Ragged
from gate_runner.charts.markup import Section, folded, joined, note, piece, table
from gate_runner.charts.plot import Dot, plot
from gate_runner.comparison.contrasts import signed
from gate_runner.errors import MissingCapabilityError
from gate_runner.reports.contents import gather
from gate_runner.reports.pictures import Example, ReloadedSamples, Roots, encoded, reload_samples
from gate_runner.runs.slicing import from_rows
from gate_runner.runs.stored import StoredRun

if TYPE_CHECKING:
    from gate_data.data import Split
    from vision_features.encoders.encoder import Encoder

_MAPPED = 500
"""Points of a map, at most."""
_COLOURED = 6


def feature_views(
    run: StoredRun,
    *,
    chosen: str | None = None,
    pictures: int = 4,
    data_root: Roots = None,
    device: str = "auto",
    encoder: Encoder | None = None,
) -> list[Section]:
    """A section on the features of a run's encoder, for each benchmark of classes; none where there is no such.

    Features are those that the run kept, out of the feature cache, or are encoded again on ``device``. Of an encoder
    that runs code or is fetched the folder does not decide: the user has ``chosen`` it. ``encoder`` is the run's own
    where it is loaded already.
    """
    from vision_features.encoders.loading import device_for, load_named_encoder

    contents, parts = gather([run], tests=False), []
    for row in contents.rows:
        again, _ = reload_samples(contents, row, data_root)
        if again is None or not again.task.by_class or len(again.data.test.images.shape) != 4:
            continue
        if encoder is None:
            where = device_for(device)
            encoder = load_named_encoder(run.encoder, run.path / "manifest.json", chosen=chosen, device=where)
        sized, _ = reload_samples(contents, row, data_root, size=encoder.image_size)
        parts += [piece("headed", row.name), *_views(again, sized or again, encoder, pictures)]
    return [Section("features", "A look at the features", joined(parts))] if parts else []


def _views(again: ReloadedSamples, sized: ReloadedSamples, encoder: Encoder, count: int) -> list[str]:
    """Show a benchmark; ``sized`` are the same samples at the encoder's size, as the run read them."""
    train = _features(sized, encoder, sized.data.train, "train")
    test = _features(sized, encoder, sized.data.test, "test")
    parts: list[str] = []
    hardest, _ = again.hardest(count)
    if hardest:
        parts.append(note("The hardest test images, each before its nearest training images by cosine."))
        parts += [
            piece("pictures", [example, *_nearest(again, train, test[example.index], count)]) for example in hardest
        ]
        parts += _places(sized, encoder, hardest)
    return [*parts, *_exploratory(again, test, count), *_map(again, test)]


def _features(again: ReloadedSamples, encoder: Encoder, split: Split, name: str) -> np.ndarray:
    """Rows of length 1, by the way that the run read images, and of the kind that it kept."""
    from vision_features.features import FeatureCache, encode_pictures

    result = again.results[0][1]
    settings, readouts = result.settings, encoder.readouts()
    kind = "readouts" if "readout" in result.training and len(readouts) > 1 else "pooled"
    encoder.precision = result.training.get("precision", "float32")
    own = settings.get("transform", "model") == "model" and settings.get("tune", "frozen") == "frozen"
    cache = FeatureCache.of(encoder, encoder.fingerprint())
    batch, transform = int(settings.get("batch_size", 64)), encoder.transform if own else None
    rows = encode_pictures(cache, encoder, split.images, kind, name, batch, transform=transform)[:].float().numpy()
    if kind == "readouts":
        start = sum(width for _, width in itertools.takewhile(lambda part: part[0] != "last", readouts.items()))
        rows = rows[:, start : start + readouts["last"]]
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-12)
    return unit


def _nearest(again: ReloadedSamples, train: np.ndarray, row: np.ndarray, count: int) -> list[Example]:
    """The training images whose features are nearest, the nearest first."""
    cosines = train @ row
    training = replace(again.data, test=again.data.train)
    examples = []
    for index in np.argsort(-cosines, kind="stable")[:count]:
        pixels, truth, *_ = named(again.task.draw)(training, again.results[0][1].training, int(index))
        examples.append(Example(*encoded(pixels), int(index), truth, "", f"cosine {cosines[index]:.2f}"))
    return examples


def _exploratory(again: ReloadedSamples, test: np.ndarray, count: int) -> list[str]:
    """Neighbourhoods of wrong answers, looked for on one half of the test split and tested on the other."""
    from vision_adapters.error_slices import error_slices

    run, result = again.results[0]
    outcomes = run.outcomes(result)
    if isinstance(outcomes, Ragged) or outcomes.shape != (len(test),) or not np.isin(outcomes, (0, 1)).all():
        return []
    groups = from_rows(run.tested(result)).get(GROUP)
    slices = error_slices(test, outcomes, groups=groups, seed=result.seed)
    if not slices:
        return []
    rows, parts = [], []
    for number, part in enumerate(slices, start=1):
        score, name = part.score, f"neighbourhood {number}"
        between = "" if score.low is None else f" ({score.low:.3f} to {score.high:.3f})"
        value = "–" if score.value is None else f"{score.value:.3f}{between}"
        rest = "–" if score.difference is None else signed(score.difference)
        p = "–" if score.p_adjusted is None else f"{score.p_adjusted:.3f}"
        rows.append([name, str(part.errors), str(score.samples), value, rest, p])
        if part.holds:
            shown = [again.example(at, "right" if outcomes[at] else "wrong") for at in part.members[:count]]
            parts.append(folded(f"{name}: the images nearest to its centre", piece("pictures", shown)))
    explained = (
        "Exploratory slices: wrong answers of a random half of the test images are clustered by their features. Each "
        "neighbourhood is tested on the other half against the rest of that half; p is corrected over all (Holm)."
    )
    heads = ["exploratory slice", "errors in it", "tested", "score (95 % interval)", "from the rest", "p (Holm)"]
    return [note(explained), table(heads, rows), *parts]


def _places(again: ReloadedSamples, encoder: Encoder, hardest: Sequence[Example]) -> list[str]:
    """The first three principal components of the places of the hardest images as colours."""
    try:
        patches = [encoder.encode_patches(again.data.test.images[example.index][None]) for example in hardest]
    except MissingCapabilityError:
        return []
    tokens = np.stack([places.tokens[0].float().cpu().numpy() for places in patches])
    components = _components(tokens.reshape(-1, tokens.shape[2]), 3)
    low, high = np.percentile(components, [2, 98], axis=0)
    colours = (255 * ((components - low) / (high - low).clip(1e-12)).clip(0, 1)).astype(np.uint8)
    examples = []
    for example, pixels in zip(hardest, colours.reshape(len(tokens), *patches[0].grid, -1), strict=True):
        large = pixels.repeat(max(1, 128 // pixels.shape[0]), 0).repeat(max(1, 128 // pixels.shape[1]), 1)
        examples.append(Example(*encoded(large), example.index, example.truth, "", "its places"))
    explained = "Places of these images: the first three principal components as red, green and blue."
    return [note(explained), piece("pictures", examples)]


def _map(again: ReloadedSamples, test: np.ndarray) -> list[str]:
    """The test images on a plane: UMAP where it is installed, else the first two principal components."""
    drawn = np.random.default_rng(0).permutation(len(test))[:_MAPPED]
    rows, targets = test[drawn], np.asarray(again.data.test.targets)[drawn]
    if len(rows) < 3:
        return []
    try:
        from umap import UMAP  # type: ignore[import-not-found]  # it may be there, and is no dependency

        import oven_retrieval.names.jit  # noqa: F401 - first: numba then obeys no file of the working folder
    except ImportError:
        plane, how = _components(rows, 2), "principal components; UMAP where umap-learn is installed"
    else:
        plane, how = np.asarray(UMAP(metric="cosine", random_state=0).fit_transform(rows), dtype=float), "UMAP"
    classes = list(again.data.classes)
    most = [int(label) for label in np.argsort(-np.bincount(targets), kind="stable")[:_COLOURED]]
    styles = {label: f"c{number}" for number, label in enumerate(most)}
    dots = [
        Dot(float(x), float(y), classes[int(label)], filled=False, style=styles.get(int(label), "other"))
        for (x, y), label in zip(plane, targets, strict=True)
    ]
    entries = [(classes[label], f"k{number}") for number, label in enumerate(most)]
    if len(set(targets.tolist())) > len(most):
        entries.append(("other classes", "ko"))
    picture = plot(
        f"{again.row.name}: test images by their features",
        f"{len(dots)} images, by class",
        dots=dots,
        across=[(float(end), "") for end in (plane[:, 0].min(), plane[:, 0].max())],
        up=[(float(end), "") for end in (plane[:, 1].min(), plane[:, 1].max())],
        below=how,
        above="",
        width=520.0,
        height=380.0,
        style="curve wide-figure",
    )
    return [note(f"A map of {len(dots)} test images by their features ({how})."), piece("key", entries), picture]


def _components(rows: np.ndarray, count: int) -> np.ndarray:
    """The first principal components of rows, which may be fewer than asked for and are then 0."""
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    components = np.zeros((len(rows), count))
    components[:, : min(count, len(axes))] = centred @ axes[:count].T
    return components
