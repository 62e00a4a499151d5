"""Prompt learning: vectors before the class names that a text tower reads, fitted on a few images (CoOp)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vision_adapters.training.fit import fit
from vision_adapters.training.recipe import Recipe
from vision_adapters.tuning.data import check_features, labels_of

TOKENS, START = 16, 0.02
RATE, BATCH, DECAY = 2e-3, 32, 5e-4
EPOCHS = ((1, 50), (4, 100))
MOST_EPOCHS = 200

ContextToTexts = Callable[[Tensor], Tensor]
"""Context vectors, [m, w] for all classes or [k, m, w] for each, to text embeddings of the classes [k, d]."""


class ContextHead(nn.Module):
    r"""Scores $s \cos(t_c(u), x)$ of features x by texts t that a frozen tower makes of context vectors u.

    Args:
        texts: the tower, from context vectors to an embedding of each class.
        context: where the vectors start; the one parameter.
        logit_scale: s.

    Example:
        >>> names = torch.eye(3)
        >>> head = ContextHead(lambda context: names + context.mean(0), torch.zeros(2, 3), 10.0)
        >>> head(torch.eye(3)).argmax(1).tolist()
        [0, 1, 2]
    """

    def __init__(self, texts: ContextToTexts, context: Tensor, logit_scale: float) -> None:
        super().__init__()
        self.texts, self.logit_scale = texts, logit_scale
        self.context = nn.Parameter(context.clone())

    def class_embeddings(self) -> Float[Tensor, "k d"]:
        """Return the classes' embeddings at length 1."""
        return F.normalize(self.texts(self.context).float(), dim=1)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Return the scores of each class."""
        scores: Tensor = self.logit_scale * F.normalize(x, dim=1) @ self.class_embeddings().T
        return scores


def coop_recipe(shots: int, images: int) -> Recipe:
    """Return CoOp's training: 50 epochs at 1 image per class, 100 up to 4, else 200; the first at a rising rate.

    Args:
        shots: images per class, at least 1.
        images: of all classes; a batch has 32 of them.

    Raises:
        ValueError: shots or images below 1.

    Example:
        >>> recipe = coop_recipe(shots=16, images=160)
        >>> recipe.steps, recipe.lr, recipe.optimiser
        (1000, 0.002, 'sgd')
    """
    if shots < 1 or images < 1:
        raise ValueError(f"shots and images must be at least 1, got {shots} and {images}")
    epochs = next((number for most, number in EPOCHS if shots <= most), MOST_EPOCHS)
    steps = max(1, images // BATCH)
    return Recipe(
        lr=RATE, steps=epochs * steps, batch_size=BATCH, validate_every=epochs * steps, weight_decay=DECAY,
        schedule="cosine", warmup=steps, optimiser="sgd",
    )  # fmt: skip


def fit_context(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    texts: ContextToTexts,
    width: int,
    *,
    classes: int,
    logit_scale: float = 100.0,
    shots: int = 1,
    tokens: int = TOKENS,
    class_specific: bool = False,
    seed: int = 0,
    recipe: Recipe | None = None,
    device: torch.device | str | None = None,
) -> ContextHead:
    r"""Fit the context that a text tower reads before each class's name, both towers staying as they are.

    Minimise $\mathrm{CE}(s \cos(t_c(u), x_i), y_i)$ over u, which is drawn from $N(0, 0.02^2)$. Nothing is chosen.

    Args:
        features: of the images, from the tower of images.
        labels: classes 0 to k - 1; some may have no image.
        texts: from context vectors to the classes' text embeddings; gradients must flow through it.
        width: of the vectors, that of the tower's token embeddings.
        classes: k.
        logit_scale: the encoder's, > 0.
        shots: images per class, by which `coop_recipe` sets the number of epochs.
        tokens: vectors.
        class_specific: vectors of each class instead of common ones, which other classes cannot use.
        seed: of the start and of the order of the images.
        recipe: another one than `coop_recipe`.
        device: where the tower is.

    Returns:
        The head, in evaluation mode; its `context` holds the vectors.

    Raises:
        ValueError: labels out of range, features that are not finite, or numbers that are not positive.

    Example:
        >>> names, turn = torch.eye(3), torch.eye(3).roll(1, 0)
        >>> head = fit_context(torch.eye(3).repeat(4, 1), torch.arange(12) % 3,
        ...                    lambda context: names @ turn + context, 3, classes=3, tokens=1, shots=4,
        ...                    class_specific=False, logit_scale=1.0)
        >>> head.context.shape
        torch.Size([1, 3])

    Source:
        Zhou et al., Learning to prompt for vision-language models (CoOp, 2022), and its released settings: 16 vectors
        before the name, SGD with momentum at 0.002, a decay of 0.0005, a cosine, batches of 32. Its code sees another
        random crop at each step and spends the first epoch at a rate of 0.00001; here features are those that are
        given, and the rate rises linearly in the first epoch.
    """
    check_features(features, "features")
    y = labels_of(labels, len(features), classes)
    if y.ndim != 1:
        raise ValueError(f"labels have shape {tuple(y.shape)}, expected ({len(features)},)")
    if tokens < 1 or width < 1 or not logit_scale > 0:
        raise ValueError(f"tokens, width and logit_scale must be positive, got {tokens}, {width} and {logit_scale}")
    with torch.inference_mode(False), torch.enable_grad():
        start = START * torch.randn(
            *((classes,) if class_specific else ()), tokens, width, generator=torch.Generator().manual_seed(seed)
        )
        head = ContextHead(texts, start, logit_scale)
        x, y = features.detach().float().clone(), y.to(features.device)
        fit(
            head, (x,), y, loss=F.cross_entropy, recipe=recipe or coop_recipe(shots, len(x)),
            validate=lambda module: 0.0, direction="higher", seed=seed, choose="last", device=device,
        )  # fmt: skip
    return head.eval()
