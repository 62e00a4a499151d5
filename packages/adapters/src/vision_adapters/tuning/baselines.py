"""Zero-shot, GDA, Tip-Adapter, and scikit-learn's logistic regression on cached features."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vision_adapters.heads import LinearHead, fixed_head, language_head
from vision_adapters.tuning.data import Tuned, TuningData, search
from vision_adapters.tuning.unit_features import class_means, cosines, is_worthless

SHARES = tuple(10.0 ** (half_decade / 2) for half_decade in range(-8, 5))
STRENGTHS = tuple(10.0 ** (power / 2) for power in range(-2, 13))


def unit_texts(data: TuningData, method: str, *, several: bool = False) -> Float[Tensor, "k d"]:
    """The class texts at length 1."""
    if data.class_embeddings is None:
        raise ValueError(f"{method} needs class_embeddings, got None")
    if data.several and not several:
        raise ValueError(f"{method} takes one label per sample, got labels of shape {tuple(data.labels.shape)}")
    return F.normalize(data.class_embeddings, dim=1)


def tune_zero_shot(data: TuningData) -> Tuned:
    """The class texts alone; nothing is fitted."""
    texts = unit_texts(data, "zero_shot", several=True)
    rows = torch.arange(len(data.labels))
    score = data.score(data.logit_scale * cosines(data, F.normalize(data.features, dim=1)), rows)
    return Tuned("zero_shot", {}, score, language_head(texts, data.logit_scale).eval(), (), data.metric)


def keeps_zero_shot(data: TuningData) -> bool:
    """Whether a head of single images stays at zero-shot: nothing can be validated, and they do not speak against it.

    They speak against it where the texts, which have not seen them, hit no more of them than chance, and too few to be
    half-way good (`is_worthless`). A head that is fitted again on part of them keeps what was chosen on all.
    """
    if data.fixed is not None:
        return data.fixed.get("kind") == "zero_shot"
    if data.has_validation:
        return False
    guesses = cosines(data, F.normalize(data.features, dim=1)).argmax(1)
    hits = int((guesses == data.labels).sum())
    return hits * data.classes > len(guesses) or not is_worthless(hits / len(guesses), len(guesses), data.classes)


def kept_zero_shot(data: TuningData, method: str) -> Tuned:
    """Zero-shot under a method's own name."""
    head = language_head(unit_texts(data, method), data.logit_scale).eval()
    return Tuned(method, {"kind": "zero_shot"}, None, head, (), data.metric)


def tune_gda(data: TuningData) -> Tuned:
    r"""Gaussian discriminant analysis added to zero-shot, in closed form.

    $s\,v_c \cdot x + \alpha (w_c \cdot x + b_c)$ with $w_c = \Sigma^{-1}\mu_c$, $b_c = -\mu_c^\top\Sigma^{-1}\mu_c / 2$
    (equal priors), and $\Sigma^{-1} = d\,((n - 1)\hat\Sigma + \operatorname{tr}(\hat\Sigma) I)^{-1}$; $\alpha$
    is chosen on validation. With one image per class, nothing can be validated, and alpha is 1; 0 where the images do
    not speak against zero-shot (`keeps_zero_shot`), for single images that vary much put it far below.

    Source:
        Wang et al., A hard-to-beat baseline for training-free CLIP-based adaptation (2024), and its released code. They
        draw several augmented views of each image; on cached features there is one, so that one image per class leaves
        no scatter within the classes: the scatter of all images stands in. A class that a fold leaves without images
        gets the mean of all images. The grid has half decades, and 0.
    """
    unit_texts(data, "gda")

    def candidates() -> Iterator[tuple[dict[str, float], Tensor]]:
        scores = gda_scores(data)
        zero_shot = data.logit_scale * cosines(data, F.normalize(data.features[data.validation_rows()], dim=1))
        for alpha in (0.0, *SHARES):
            yield {"alpha": alpha}, zero_shot + alpha * scores

    plain = {"alpha": 0.0 if keeps_zero_shot(data) else 1.0}
    return search(data, "gda", candidates(), gda_head(data), plain)


def gda_scores(data: TuningData) -> Float[Tensor, "n k"]:
    """The discriminants' scores of `validation_rows`, each fold's from the others' images."""
    unit = F.normalize(data.features, dim=1)
    parts = [_gaussian(unit[fold.train], data.targets(fold.train)) for fold in data.folds]
    return torch.cat([unit[fold.validation] @ w.T + b for fold, (w, b) in zip(data.folds, parts, strict=True)])


def gda_head(data: TuningData) -> Callable[[float], LinearHead]:
    """The head for a share alpha of the discriminant of all images."""
    texts = unit_texts(data, "gda")
    weight, bias = _gaussian(F.normalize(data.features, dim=1), data.targets())

    def head(alpha: float) -> LinearHead:
        return fixed_head(data.logit_scale * texts + alpha * weight, alpha * bias, "l2")

    return head


def _gaussian(x: Tensor, member: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and biases of the shrunk discriminant; equal priors."""
    n, d = x.shape
    means = class_means(x, member)
    centred = (x - member @ means).double()
    scatter = centred.T @ centred
    shrink = float(scatter.diagonal().sum()) / max(n - 1, 1)
    if shrink <= 0:  # one sample per class leaves no scatter within the classes: use that of all samples
        centred = (x - x.mean(0)).double()
        scatter = centred.T @ centred
        shrink = max(float(scatter.diagonal().sum()) / max(n - 1, 1), 1e-12)
    scatter.diagonal().add_(shrink)
    weight = d * torch.linalg.solve(scatter, means.double().T).T
    return weight.to(x.dtype), (-0.5 * (weight * means).sum(1)).to(x.dtype)


class CacheHead(nn.Module):
    r"""Tip-Adapter's scores: $s\,v_c \cdot x + \alpha \sum_{i : y_i = c} \exp(-\beta (1 - x_i \cdot x))$.

    `texts` and `keys`, the training features, are of length 1; `values` are the labels as 0/1 columns.
    """

    def __init__(self, texts: Tensor, keys: Tensor, values: Tensor, scale: float, alpha: float, beta: float) -> None:
        super().__init__()
        self.register_buffer("texts", texts)
        self.register_buffer("keys", keys)
        self.register_buffer("values", values)
        self.scale, self.alpha, self.beta = scale, alpha, beta

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of each class, a few thousand rows at a time: each is compared with every key."""
        if torch.compiler.is_compiling():  # as ONNX there is no number of parts
            return self._scores(x)
        return torch.cat([self._scores(part) for part in torch.split(x, 4096)])

    def _scores(self, x: Tensor) -> Tensor:
        unit = F.normalize(x, dim=1)
        affinity = torch.exp(-self.beta * (1 - unit @ self.get_buffer("keys").T))
        return self.scale * unit @ self.get_buffer("texts").T + self.alpha * affinity @ self.get_buffer("values")


def cache_values(data: TuningData, rows: Tensor | slice = slice(None)) -> Float[Tensor, "n k"]:
    """What some images in a cache count for which class."""
    return data.targets(rows) * data.sample_weights(rows)[:, None]


def tune_tip(data: TuningData) -> Tuned:
    """Tip-Adapter without training: a cache of the training images, its weight and sharpness chosen on validation.

    With one image per class, nothing can be validated, and alpha is 1, beta 5.5.

    Source: Zhang et al., Tip-Adapter (2022), its scores and its default alpha and beta. The released code searches them
    on the test set of ImageNet; here, a geometric grid on validation.
    """
    texts = unit_texts(data, "tip_adapter", several=True)
    unit = F.normalize(data.features, dim=1)

    def candidates() -> Iterator[tuple[dict[str, float], Tensor]]:
        zero_shot = data.logit_scale * cosines(data, unit[data.validation_rows()])
        yield {"alpha": 0.0, "beta": 1.0}, zero_shot
        for beta in (0.5, 1.0, 2.0, 5.5, 10.0, 20.0, 40.0):
            parts = [
                torch.exp(-beta * (1 - unit[fold.validation] @ unit[fold.train].T)) @ cache_values(data, fold.train)
                for fold in data.folds
            ]
            cache = torch.cat(parts)
            for alpha in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0):
                yield {"alpha": alpha, "beta": beta}, zero_shot + alpha * cache

    def head(alpha: float, beta: float) -> nn.Module:
        return CacheHead(texts, unit, cache_values(data), data.logit_scale, alpha, beta).eval()

    return search(data, "tip_adapter", candidates(), head, {"alpha": 1.0, "beta": 5.5})


def tune_logistic(data: TuningData) -> Tuned:
    """scikit-learn's logistic regression on unit-length features, C searched on validation: the probe without texts.

    With one image per class, nothing can be validated, and C is scikit-learn's default, 1.
    """
    unit = F.normalize(data.features, dim=1)

    def candidates() -> Iterator[tuple[dict[str, float], Tensor]]:
        for strength in STRENGTHS:
            parts = [(fold, *_fitted(data, unit, fold.train, strength)) for fold in data.folds]
            yield {"C": strength}, torch.cat([unit[fold.validation] @ w.T + b for fold, w, b in parts])

    def head(C: float) -> LinearHead:
        return fixed_head(*_fitted(data, unit, torch.arange(len(unit)), C), "l2")

    with _one_thread_in_scipy():
        return search(data, "logistic", candidates(), head, {"C": 1.0})


def _one_thread_in_scipy() -> AbstractContextManager[object]:
    """Let SciPy's own algebra take one thread; NumPy's and torch's keep theirs.

    SciPy's wheels bring an OpenBLAS beside NumPy's. L-BFGS calls it for products of a few vectors thousands of times,
    and the threads of each call take longer than its product. Where both have one library, nothing changes.
    """
    import scipy.optimize  # loads the library
    from threadpoolctl import ThreadpoolController

    home = Path(scipy.optimize.__file__).parents[1]
    libraries = ThreadpoolController()
    files = [Path(library["filepath"]) for library in libraries.info()]
    own = [str(file) for file in files if file.parent == home.with_name("scipy.libs") or home in file.parents]
    limited: AbstractContextManager[object] = libraries.select(filepath=own).limit(limits=1)
    return limited


def _fitted(data: TuningData, unit: Tensor, rows: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Weights and biases of one regression over classes, or of one per label."""
    from sklearn.linear_model import LogisticRegression

    class_weight = dict(enumerate(data.class_weight)) if isinstance(data.class_weight, tuple) else data.class_weight

    weights = None if data.sample_weight is None else data.sample_weight[rows].numpy()

    def fit(labels: Tensor) -> tuple[Tensor, Tensor]:
        with warnings.catch_warnings():
            # with one image per class it asks whether the classes are meant
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            model = LogisticRegression(C=strength, max_iter=500, class_weight=class_weight)
            model.fit(unit[rows].cpu().numpy(), labels.numpy(), sample_weight=weights)
        return torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_).float()

    if data.several:
        columns = []
        for label in data.labels[rows].T:
            # a label that all samples have, or none, is a constant
            one_sided = len(torch.unique(label)) == 1
            constant = (unit.new_zeros(1, unit.shape[1]), unit.new_full((1,), float(label[0]) * 2 - 1))
            columns.append(constant if one_sided else fit(label))
        return torch.cat([weight for weight, _ in columns]), torch.cat([bias for _, bias in columns])
    present = torch.unique(data.labels[rows])
    if len(present) == 1:
        weight, bias = unit.new_zeros(1, unit.shape[1]), unit.new_zeros(1)
    else:
        weight, bias = fit(data.labels[rows])
    if len(present) == 2:
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    # a class without images is never the answer
    every, floor = weight.new_zeros(data.classes, weight.shape[1]), bias.new_full((data.classes,), -1e9)
    every[present], floor[present] = weight, bias
    return every, floor
