"""By the encoder's class texts alone."""

from __future__ import annotations

from dataclasses import dataclass

from gate_runner.adaptation.adapted import Adapted
from gate_runner.adaptation.kept import Kept
from gate_runner.adaptation.work import Work
from gate_runner.class_words import TEMPLATE, ClassWords


@dataclass(frozen=True)
class ZeroShot:
    """Nothing is trained.

    Args:
        template: prompt of a class, in which ``{}`` stands for its name; or `ClassWords`: several, sets, knowledge.

    Example:
        >>> ZeroShot("a blurry photo of a {}.").template
        'a blurry photo of a {}.'
    """

    template: str | ClassWords = TEMPLATE

    def adapt(self, work: Work) -> Adapted:
        """Score the test images by their cosines with the class texts.

        Raises:
            MissingCapabilityError: the encoder has no text side.
        """
        from vision_adapters.tuning import HeldOut, tune, tuning_data

        texts = work.class_embeddings(self.template)
        data = tuning_data(
            work.features(work.images.train, "train"),
            work.images.train.labels,
            class_embeddings=texts,
            logit_scale=work.encoder.logit_scale or 100.0,
            metric=work.metric,
            validation="folds",
        )
        test = HeldOut(work.features(work.images.test, "test"), work.images.test.labels)
        tuned = tune(data, "zero_shot")
        score = test.score(tuned, seed=work.seed)
        kept = Kept(tuned.head, prompts=work.prompts(self.template))
        return work.adapted("zero_shot", score, _details(self.template, work), len(work.images.train), kept)


def _details(template: str | ClassWords, work: Work) -> dict[str, object]:
    """What stood for the classes, where it was more than one template."""
    if isinstance(template, str):
        return {}
    built = template.built(work.images.names)
    said: dict[str, object] = {"texts": len(built), "named": ", ".join(built.classes[:8])}
    if built.sources:
        said["knowledge"] = list(built.sources)
        said["without_knowledge"] = built.without_knowledge
    return said
