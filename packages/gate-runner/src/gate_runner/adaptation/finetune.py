"""The encoder itself, with a head that starts at the class texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gate_data.pictures import Pictures
from gate_runner.adaptation.adapted import Adapted
from gate_runner.adaptation.kept import Kept
from gate_runner.adaptation.work import Work
from gate_runner.class_words import TEMPLATE, ClassWords
from gate_runner.errors import UsageError

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder


class _Prepared(nn.Module):
    """The encoder's image side, from bytes to features."""

    def __init__(self, encoder: Encoder, module: nn.Module) -> None:
        super().__init__()
        self.module, self.whole = module, (encoder,)  # in a tuple: its weights are the module's

    def forward(self, images: Tensor) -> Float[Tensor, "n d"]:
        """Pooled features."""
        (encoder,) = self.whole
        features: Tensor = encoder.image(encoder.prepare(images))
        return features


class _PictureRows:
    """Images by number, read when a batch asks for them."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, rows: Any, /) -> Tensor:
        chosen = torch.arange(len(self))[rows]
        return self.pictures.take(chosen.reshape(-1).tolist())[:]


@dataclass(frozen=True)
class Finetune:
    """Weights of the encoder are trained; the step that validates best is kept.

    Args:
        part: all, last_block, norm, bias, none, or lora.
        steps: of the optimiser, >= 0.
        lr: learning rate; the head's is ten times it.
        wise: share of the tuned weights in the mix with the start, in 0 to 1 (WiSE-FT).
        precision: of the forward passes: float32, bfloat16, or auto (bfloat16 where the GPU has it).
        template: prompt of a class, in which ``{}`` stands for its name; or `ClassWords`: several, sets, knowledge.
        checkpoint: file to continue an interrupted training from.
    """

    part: str = "all"
    steps: int = 200
    lr: float = 1e-4
    wise: float = 1.0
    precision: str = "auto"
    template: str | ClassWords = TEMPLATE
    checkpoint: Path | None = None

    def adapt(self, work: Work) -> Adapted:
        """Train on one fold's images, choose on the others, and score the test images once.

        Raises:
            UsageError: the encoder shows no module, or the training diverges.
        """
        from gate_runner.encoders.encoder import fingerprint_of
        from gate_runner.tasks.after_training import mixed
        from gate_runner.tasks.tuned import choose_weights
        from vision_adapters.efficiency import parameter_counts
        from vision_adapters.finetune import Classifier, train_only
        from vision_adapters.losses import cross_entropy
        from vision_adapters.metrics import evaluate, metric_named
        from vision_adapters.training import Recipe, fit
        from vision_adapters.tuning import make_folds

        encoder, train = work.encoder, work.images.train
        if encoder.module is None:
            raise UsageError(f"encoder {encoder.spec!r} shows no module to fine-tune")
        fold = make_folds(train.labels, "shuffled", work.seed)[0]
        head = self._head(work)
        module, before = encoder.module, encoder.fingerprint()
        if self.part == "none":
            names = train_only(module, "none")
        else:
            few = train.pictures(encoder.image_size)[:2]
            names = choose_weights(encoder, "pooled", self.part, few, option="--part", head_only="none")
        model = Classifier(_Prepared(encoder, module), head)
        held = train.take(torch.as_tensor(fold.validation))
        fitting = train.take(torch.as_tensor(fold.train))
        start = {name: value.clone() for name, value in model.state_dict().items()}
        recipe = Recipe(
            lr=self.lr,
            steps=self.steps,
            batch_size=work.batch_size,
            validate_every=max(1, self.steps // 10),
            schedule="cosine",
            head_lr_scale=10.0,
            precision=self.precision,  # type: ignore[arg-type]  # checked there
        )

        def validate(tuned: nn.Module) -> float:
            return evaluate(work.metric, work.predictions(tuned, held, "train"), held.labels, resamples=0).value

        try:
            fitted = fit(
                model,
                (_PictureRows(fitting.pictures(encoder.image_size)),),
                fitting.labels,
                loss=cross_entropy,
                recipe=recipe,
                validate=validate,
                direction=metric_named(work.metric).direction,
                seed=work.seed,
                checkpoint=self.checkpoint,
                belongs_to={
                    "encoder": str(before),
                    "pixels": f"{encoder.image_size} {encoder.mean} {encoder.std}",
                    "head": fingerprint_of(head.state_dict()),
                    "part": self.part,
                    "metric": work.metric,
                },
                progress=work.progress,
                device=encoder.device,
            )
        except ValueError as error:
            if self.checkpoint is None or str(self.checkpoint) not in str(error):
                raise
            raise UsageError(f"--checkpoint {error}") from error
        except FloatingPointError as error:
            raise UsageError(f"{error}; try a lower --lr than {self.lr}") from error
        if self.wise != 1.0:
            model.load_state_dict(mixed(start, model.state_dict(), self.wise, whole=True))
        test = work.images.test
        score = evaluate(work.metric, work.predictions(model.eval(), test, "test"), test.labels, seed=work.seed)
        details = {
            "best_step": fitted.best_step,
            "validation": fitted.best_score,
            "trainable": parameter_counts(model).trainable,
            "trained_names": len(names),
            "precision": fitted.precision,
            "seconds": round(fitted.seconds, 2),
        }
        prompts = () if encoder.text is None else work.prompts(self.template)
        kept = Kept(head, "projected", prompts, self.part, module.state_dict(), before)
        return work.adapted(f"finetune {self.part}", score, details, len(train), kept)

    def _head(self, work: Work) -> nn.Module:
        from vision_adapters.heads import LinearHead, language_head, seeded

        encoder = work.encoder
        if encoder.text is not None:
            return language_head(work.class_embeddings(self.template), encoder.logit_scale or 100.0)
        width = encoder.encode_image(work.images.train.pictures(encoder.image_size)[:1]).shape[1]
        classes = len(work.images.names)
        return seeded(lambda: LinearHead(width, classes, features="l2", logit_scale=10.0), work.seed).to(encoder.device)
