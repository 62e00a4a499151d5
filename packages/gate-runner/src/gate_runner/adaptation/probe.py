"""A head on the frozen encoder's features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gate_runner.adaptation.adapted import Adapted
from gate_runner.adaptation.kept import Kept
from gate_runner.adaptation.work import Work
from gate_runner.class_words import TEMPLATE, ClassWords
from gate_runner.errors import UsageError


@dataclass(frozen=True)
class Probe:
    """A head whose choices are made by validation.

    Args:
        method: anchored, elevater, logistic, gda, lp++, clap, tip_adapter or zero_shot.
        shots: images per class, drawn by ELEVATER's rule; all by default.
        features: ``"projected"``, in the texts' space, or ``"backbone"``, before the projection and without texts.
        template: prompt of a class, in which ``{}`` stands for its name; or `ClassWords`: several, sets, knowledge.

    Raises:
        UsageError: features of another name.

    Example:
        >>> Probe(method="logistic", shots=5).features
        'projected'
    """

    method: str = "anchored"
    shots: int | None = None
    features: Literal["projected", "backbone"] = "projected"
    template: str | ClassWords = TEMPLATE

    def __post_init__(self) -> None:
        """Check the features' name."""
        if self.features not in ("projected", "backbone"):
            raise UsageError(f"features must be projected or backbone, got {self.features!r}")

    def adapt(self, work: Work) -> Adapted:
        """Fit the head on training images and score the test images once."""
        import torch

        from vision_adapters.fewshot import elevater_indices
        from vision_adapters.tuning import HeldOut, tune, tuning_data

        encoder, train, test = work.encoder, work.images.train, work.images.test
        before = self.features == "backbone"
        texts = None if encoder.text is None or before else work.class_embeddings(self.template)
        if self.shots is not None:
            train = train.take(torch.from_numpy(elevater_indices(train.labels, self.shots, work.seed).indices))
        data = tuning_data(
            work.features(train, "train", before=before),
            train.labels,
            class_embeddings=texts,
            logit_scale=encoder.logit_scale or 100.0,
            metric=work.metric,
            seed=work.seed,
        )
        tuned = tune(data, self.method)
        score = HeldOut(work.features(test, "test", before=before), test.labels).score(tuned, seed=work.seed)
        details = {"features": self.features, "chosen": tuned.best_params, "validation": tuned.validation}
        kept = Kept(tuned.head, self.features, () if texts is None else work.prompts(self.template))
        return work.adapted(self.method, score, details, len(train), kept)
