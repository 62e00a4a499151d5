"""CLIP-LoRA and 2SFS under CoOp's protocol: both towers are trained on the drawn images, then put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from gate_data.coop import COOP, FewShotData
from gate_data.coop.protocols import SOURCE
from gate_runner.errors import NotApplicableError
from gate_runner.tasks.coop.heads import Classes, Fitted, Seen
from gate_runner.tasks.coop.points import LOW_RANK

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job
    from vision_features.encoders.encoder import Encoder


Scored = Callable[[Tensor], Tensor]
"""From features at length 1 to scores of the trained classes."""


class Towers(nn.Module):
    """Scores of images by class texts, both encoded anew, so that gradients reach both towers."""

    def __init__(self, encoder: Encoder, prompts: Sequence[str], scale: float) -> None:
        super().__init__()
        assert encoder.module is not None
        self.model = encoder.module
        self.encoder, self.prompts, self.scale = encoder, list(prompts), scale

    def texts(self, prompts: Sequence[str]) -> Float[Tensor, "k d"]:
        """Return a unit row for each text."""
        assert self.encoder.text is not None
        return F.normalize(self.encoder.text(list(prompts)).float(), dim=1)

    def images(self, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        """Return features at length 1."""
        return F.normalize(self.encoder.image(self.encoder.prepare(images)).float(), dim=1)

    def forward(self, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n k"]:
        """Return the scores of each class."""
        scores: Tensor = self.scale * self.images(images) @ self.texts(self.prompts).T
        return scores


def fit_towers(method: str, job: Job, data: FewShotData, shots: int, protocol: str) -> Fitted:
    """Train the towers by a published recipe, encode the test images and texts, and put the weights back.

    Raises:
        NotApplicableError: the encoder shows no weights, has no texts, or its towers have nothing that is trained.
    """
    from vision_adapters.finetune import preserve_state

    encoder, scale = job.encoder, job.encoder.logit_scale or 100.0
    if encoder.module is None or encoder.text is None:
        raise NotApplicableError(f"method {method} trains both towers, and {encoder.spec!r} does not show both")
    template = COOP[SOURCE].template if protocol == "cross" else job.training["templates"][0]
    towers = Towers(encoder, [template.format(name) for name in data.trained_classes], scale)
    images, labels = data.train.images[:], data.train.targets.long()
    with torch.inference_mode(False), torch.enable_grad(), preserve_state(encoder.module):
        train = _low_rank if method == LOW_RANK else _two_stage
        trained, parameters = train(towers, images, labels, shots, job.seed)
        with torch.no_grad():
            size = job.settings.batch_size
            starts = range(0, len(data.test), size)
            test = torch.cat([towers.images(data.test.images[i : i + size]).cpu() for i in starts])
            tested = towers.texts([job.training["templates"][0].format(name) for name in data.classes]).cpu()
    rows = dict(zip(data.classes, tested, strict=True))

    def others(seen: Seen, classes: Classes) -> Tensor:
        return scale * seen.features @ torch.stack([rows[name] for name in classes.names]).T

    about = {
        "chosen": {"method": method},
        "chosen_with": "nothing",
        "validated": None,
        "trained_parameters": parameters,
    }
    return Fitted(lambda seen: trained(seen.features), others, True, about, Seen(test))


def _fit(module: nn.Module, inputs: Tensor, labels: Tensor, recipe: Any, seed: int, device: torch.device) -> None:
    from vision_adapters.training import fit

    fit(module, (inputs,), labels, loss=F.cross_entropy, recipe=recipe, validate=lambda trained: 0.0,
        direction="higher", seed=seed, choose="last", device=device)  # fmt: skip


def _low_rank(towers: Towers, images: Tensor, labels: Tensor, shots: int, seed: int) -> tuple[Scored, int]:
    """Updates of the attentions of both towers; class weights are the texts by the trained tower."""
    from vision_adapters.low_rank import add_lora
    from vision_adapters.training import clip_lora

    try:
        settings = clip_lora(towers.model, shots)
        add_lora(towers.model, rank=settings.rank, alpha=settings.alpha, targets=settings.targets)
    except (ImportError, ValueError) as error:
        raise NotApplicableError(str(error)) from error
    count = sum(parameter.numel() for parameter in towers.model.parameters() if parameter.requires_grad)
    _fit(towers, images, labels, settings.recipe, seed, towers.encoder.device)
    towers.eval()
    with torch.no_grad():
        weight = towers.scale * towers.texts(towers.prompts).cpu()
    return lambda features: features @ weight.T, count


def _two_stage(towers: Towers, images: Tensor, labels: Tensor, shots: int, seed: int) -> tuple[Scored, int]:
    """Norms of both towers, then the class weights on the features that came out, from the texts on."""
    from vision_adapters.finetune import train_only
    from vision_adapters.heads import language_head
    from vision_adapters.training import two_stage

    first, second = two_stage(shots)
    try:
        train_only(towers.model, "norm")
    except ValueError as error:
        raise NotApplicableError(str(error)) from error
    count = sum(parameter.numel() for parameter in towers.model.parameters() if parameter.requires_grad)
    _fit(towers, images, labels, first, seed, towers.encoder.device)
    towers.eval()
    with torch.no_grad():
        features = torch.cat([towers.images(part) for part in torch.split(images, 64)])
        head = language_head(towers.texts(towers.prompts), towers.scale)
    head.requires_grad_(False)
    head.weight.requires_grad_(True)
    _fit(head, features, labels, second, seed, towers.encoder.device)
    head = head.cpu().eval().requires_grad_(False)
    return head, count + head.weight.numel()
