"""An encoder and the images that it is adapted to: streamed from their files, never all in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from gate_runner.adaptation.adapted import Adapted
from gate_runner.adaptation.images import OwnImages, Samples
from gate_runner.benchmarks.shared import pixels_key
from gate_runner.class_words import ClassWords, words_of
from gate_runner.features import FeatureCache, Kind, digests_of, encode_pictures

if TYPE_CHECKING:
    from gate_runner.adaptation.kept import Kept
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.tasks.job import Progress
    from vision_adapters.metrics import Score


@dataclass
class Work:
    """What every method needs.

    Args:
        encoder: on its device.
        images: to train on and to test on.
        metric: a name of ``vision_adapters.metrics``.
        seed: of draws and training.
        batch_size: images at a time.
        progress: told how far it is.
        cache: folder of all encoders' features; `gate_runner.features.cache_folder` by default.
    """

    encoder: Encoder
    images: OwnImages
    metric: str
    seed: int
    batch_size: int
    progress: Progress
    cache: Path | None = None
    seen: dict[str, dict[bytes, str]] = field(default_factory=dict)

    def features(self, samples: Samples, name: str, *, before: bool = False) -> Float[Tensor, "n d"]:
        """Pooled features; an image that the cache knows is not encoded.

        Args:
            samples: of a split.
            name: of the split.
            before: those before the projection into the texts' space.
        """
        pictures, pixels = samples.pictures(self.encoder.image_size), dict[int, bytes]()

        def watch(numbers: Tensor, shown: Tensor) -> None:
            pixels.update(zip(numbers.tolist(), map(pixels_key, shown), strict=True))

        def keys(numbers: Tensor) -> Tensor:
            unread = [at for at in numbers.tolist() if at not in pixels]
            watch(torch.tensor(unread), pictures.take(unread)[:])
            return torch.stack([torch.frombuffer(bytearray(pixels[at]), dtype=torch.uint8) for at in numbers.tolist()])

        def progress(done: int, total: int) -> None:
            self.progress(f"encode {name}", done, total)

        kind: Kind = "backbone" if before else "pooled"
        rows = encode_pictures(
            self.features_cache, self.encoder, pictures, kind, name, self.batch_size, progress, watch
        )
        shown = self.features_cache.rows(name, "pixels", digests_of(pictures), self.batch_size, keys)[:]
        seen = self.seen.setdefault(name, {})
        for row, file in zip(shown, samples.files, strict=True):
            seen.setdefault(row.numpy().tobytes(), file)
        features: Tensor = rows[:]
        return features.clone()  # out of inference mode

    @cached_property
    def features_cache(self) -> FeatureCache:
        """Of the encoder as it is given, before anything is trained."""
        return FeatureCache.of(self.encoder, self.encoder.fingerprint(), root=self.cache)

    def predictions(self, module: torch.nn.Module, samples: Samples, name: str) -> Tensor:
        """What a module from images gives."""
        with torch.no_grad():
            return self._streamed(samples, name, lambda batch: module(batch).cpu())[0]

    def class_embeddings(self, template: str | ClassWords) -> Float[Tensor, "k d"]:
        """One text embedding per class: of its one text, or the mean of its texts' on the unit sphere.

        Raises:
            UsageError: a template without a place for the name, or names or knowledge that cannot be found.
        """
        from knowledge_prompts import class_embeddings

        built = words_of(template).built(self.images.names)
        if all(len(texts) == 1 for texts in built.prompts):
            return self.encoder.encode_text([built.texts(place)[0] for place in range(len(built.classes))]).clone()
        made = class_embeddings(lambda texts: self.encoder.encode_text(list(texts)).cpu().numpy(), built)
        return torch.from_numpy(made.weights).to(self.encoder.device)

    def prompts(self, template: str | ClassWords) -> list[str]:
        """The texts of each class, several with bars between them.

        Raises:
            UsageError: as `class_embeddings`.
        """
        built = words_of(template).built(self.images.names)
        return [" | ".join(built.texts(place)) for place in range(len(built.classes))]

    def adapted(self, method: str, score: Score, details: Mapping[str, Any], train: int, kept: Kept) -> Adapted:
        """The result, with what both splits were seen to share."""
        images = self.images
        found = Adapted(method, score.metric, score.value, score.low, score.high, train, len(images.test), images.names)
        shared = self._shared()
        return Adapted(
            **{**vars(found), "details": dict(details), "skipped": images.skipped, "shared": shared, "kept": kept}
        )

    def _streamed(self, samples: Samples, name: str, compute: Any) -> tuple[Tensor, list[bytes]]:
        """What is computed of each image, and the digests of their pixels."""
        pictures, seen = samples.pictures(self.encoder.image_size), self.seen.setdefault(name, {})
        parts, keys = [], []
        for start in range(0, len(samples), self.batch_size):
            batch = pictures[start : start + self.batch_size]
            for file, image in zip(samples.files[start : start + self.batch_size], batch, strict=True):
                keys.append(pixels_key(image))
                seen.setdefault(keys[-1], file)
            parts.append(compute(batch))
            self.progress(f"encode {name}", min(start + self.batch_size, len(samples)), len(samples))
        return torch.cat(parts), keys

    def _shared(self) -> tuple[tuple[str, str], ...]:
        """Test images that are training images, too: by pixels where both were seen, else by their files' bytes."""
        train, test = self.seen.get("train", {}), self.seen.get("test", {})
        found = {test[key]: train[key] for key in test.keys() & train.keys()}
        if len(train) < len(self.images.train):
            files = {file_digest(file): file for file in self.images.train.files}
            for file in self.images.test.files:
                same = files.get(file_digest(file))
                if same is not None:
                    found.setdefault(file, same)
        return tuple(sorted(found.items()))


class Method(Protocol):
    """A way to adapt an encoder: `ZeroShot`, `Probe` or `Finetune`.

    Example:
        >>> from gate_runner.adaptation import Probe
        >>> method: Method = Probe(method="logistic")
    """

    def adapt(self, work: Work) -> Adapted:
        """Adapt the encoder of ``work`` to its images, and score the test images once."""


def file_digest(file: str) -> str:
    """Of a file's bytes."""
    with Path(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
