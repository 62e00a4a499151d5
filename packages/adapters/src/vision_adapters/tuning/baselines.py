"""Published few-shot methods on cached features: zero-shot, ridge logistic, GDA, CLAP, LP++ and Tip-Adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_adapters.heads import language_head
from vision_adapters.tuning.anchored import cosines, linear_head
from vision_adapters.tuning.data import Tuned, TuningData
from vision_adapters.tuning.logistic import RidgeLogistic

if TYPE_CHECKING:
    from jaxtyping import Float

SHARES = tuple(10.0 ** (place / 2) for place in range(-8, 5))


def _texts(data: TuningData, method: str) -> Float[Tensor, "k d"]:
    """The class texts at length 1, which the method needs, as it needs one label per sample."""
    if data.class_embeddings is None:
        raise ValueError(f"{method} needs class_embeddings, got None")
    if data.several and method != "zero_shot":
        raise ValueError(f"{method} takes one label per sample, got labels of shape {tuple(data.labels.shape)}")
    return F.normalize(data.class_embeddings, dim=1)


def tune_zero_shot(data: TuningData) -> Tuned:
    """The class texts alone; nothing is fitted.

    Args:
        data: with class embeddings.

    Returns:
        The choice, with zero-shot's metric on all rows as its validation.

    Raises:
        ValueError: no texts.
    """
    texts = _texts(data, "zero_shot")
    rows = torch.arange(len(data.labels))
    score = data.score(data.logit_scale * cosines(data, F.normalize(data.features, dim=1)), rows)
    return Tuned("zero_shot", {}, score, language_head(texts, data.logit_scale).eval(), (), data.metric)


def tune_gda(data: TuningData) -> Tuned:
    r"""Gaussian discriminant analysis added to zero-shot, in closed form.

    $s\,v_c \cdot x + \alpha (w_c \cdot x + b_c)$ with $w_c = \Sigma^{-1}\mu_c$, $b_c = -\mu_c^\top\Sigma^{-1}\mu_c / 2$
    (equal priors), and $\Sigma^{-1} = d\,((n - 1)\hat\Sigma + \operatorname{tr}(\hat\Sigma) I)^{-1}$; $\alpha$
    is chosen on validation.

    Args:
        data: with class embeddings, one label per sample.

    Returns:
        The choice: "alpha".

    Raises:
        ValueError: no texts, or several labels per sample.

    Source:
        Wang et al., A hard-to-beat baseline for training-free CLIP-based adaptation (2024). A class that
        a fold leaves without images gets the mean of all images.
    """
    texts = _texts(data, "gda")
    unit = F.normalize(data.features, dim=1)
    rows = data.validation_rows()
    parts = [_gaussian(unit[fold.train], data.targets(fold.train)) for fold in data.folds]
    gaussian = torch.cat([unit[fold.validation] @ w.T + b for fold, (w, b) in zip(data.folds, parts, strict=True)])
    zero_shot = data.logit_scale * cosines(data, unit[rows])
    tried = [{"alpha": alpha, "validation": data.score(zero_shot + alpha * gaussian, rows)} for alpha in (0.0, *SHARES)]
    best = max(tried, key=lambda each: each["validation"])
    weight, bias = _gaussian(unit, data.targets())
    head = linear_head(data.logit_scale * texts + best["alpha"] * weight, best["alpha"] * bias)
    return Tuned("gda", {"alpha": best["alpha"]}, best["validation"], head, tuple(tried), data.metric)


def _gaussian(x: Tensor, member: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and biases of the shrunk discriminant; equal priors."""
    n, d = x.shape
    counts = member.sum(0)
    means = (member.T @ x) / counts.clamp_min(1)[:, None]
    means[counts == 0] = x.mean(0)
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


def tune_clap(data: TuningData) -> Tuned:
    r"""A linear probe held near each class's text, the hold set by how well the text does; no validation.

    Minimises the mean cross-entropy of $s\,w_c \cdot x$ plus $\sum_c \lambda_c \lVert w_c - v_c \rVert^2$, $\lambda_c$
    being the mean zero-shot probability of class c on its own images.

    Args:
        data: with class embeddings, one label per sample; all rows are trained on.

    Returns:
        The choice, without validation.

    Raises:
        ValueError: no texts, or several labels per sample.

    Source:
        Silva-Rodriguez et al., A closer look at the few-shot adaptation of large vision-language models (2024). They
        train by SGD with multipliers; the convex problem with the first multipliers is solved here.
    """
    texts = _texts(data, "clap")
    unit, member = F.normalize(data.features, dim=1), data.targets()
    anchor = data.logit_scale * unit @ texts.T
    trust = (anchor.softmax(1) * member).sum(0) / member.sum(0)
    problem = RidgeLogistic(unit, member, several=False, anchor=anchor)
    penalty = (2.0 / data.logit_scale**2) * trust.clamp_min(1e-4)  # for s (w - v) instead of w - v
    moved = problem.unrotated(problem.solve(penalty, problem.start(), steps=200, tolerance=1e-3))
    head = linear_head(data.logit_scale * texts + moved, moved.new_zeros(data.classes))
    return Tuned("clap", {"trust": float(trust.mean())}, None, head, (), data.metric)


def tune_lpp(data: TuningData) -> Tuned:
    r"""LP++: class weights plus the texts, each with its own learned share: $(w_c + \alpha_c v_c) \cdot x$.

    Cross-entropy by block gradient steps whose lengths come from bounds of the curvature; the number of steps, at most
    300, is chosen on validation. It starts at w = 0 and $\alpha = s$, which is zero-shot.

    Args:
        data: with class embeddings, one label per sample.

    Returns:
        The choice: "steps".

    Raises:
        ValueError: no texts, or several labels per sample.

    Source:
        Huang et al., LP++: a surprisingly strong linear probe for few-shot CLIP (2024): its objective and block steps.
        Starting at zero-shot, the bounds and the choice of the number of steps are ours.
    """
    texts = _texts(data, "lp++")
    unit = F.normalize(data.features, dim=1)
    rows = data.validation_rows()
    pooled: list[list[Tensor]] = []
    for fold in data.folds:
        states = _lpp_states(unit[fold.train], data.targets(fold.train), texts, data.logit_scale)
        pooled.append([unit[fold.validation] @ weight.T for weight in states])
    tried = []
    for place in range(len(pooled[0])):
        scores = torch.cat([path[place] for path in pooled])
        tried.append({"steps": float(10 * place), "validation": data.score(scores, rows)})
    best = max(tried, key=lambda each: each["validation"])
    weight = _lpp_states(unit, data.targets(), texts, data.logit_scale)[int(best["steps"]) // 10]
    head = linear_head(weight, weight.new_zeros(data.classes))
    return Tuned("lp++", {"steps": best["steps"]}, best["validation"], head, tuple(tried), data.metric)


def _lpp_states(x: Tensor, member: Tensor, texts: Tensor, scale: float) -> list[Tensor]:
    """The combined weights after every tenth step."""
    n = len(x)
    seen = x @ texts.T
    step_w = 2.0 / float(torch.linalg.matrix_norm(x, 2) ** 2 / n)
    step_a = 2.0 / float(seen.square().mean(0).max())
    w, alpha = torch.zeros_like(texts), x.new_full((len(texts), 1), scale)
    states = [w + alpha * texts]
    for step in range(1, 301):
        residual = ((x @ w.T + seen * alpha.T).softmax(1) - member) / n
        w = w - step_w * residual.T @ x
        residual = ((x @ w.T + seen * alpha.T).softmax(1) - member) / n
        alpha = alpha - step_a * (residual * seen).sum(0)[:, None]
        if step % 10 == 0:
            states.append(w + alpha * texts)
    return states


class CacheHead(nn.Module):
    r"""Tip-Adapter's scores: $s\,v_c \cdot x + \alpha \sum_{i : y_i = c} \exp(-\beta (1 - x_i \cdot x))$.

    Args:
        texts: class texts at length 1.
        keys: training features at length 1.
        values: their labels as 0/1 columns.
        scale: the dual encoder's.
        alpha: weight of the cache, >= 0.
        beta: sharpness, > 0.
    """

    def __init__(self, texts: Tensor, keys: Tensor, values: Tensor, scale: float, alpha: float, beta: float) -> None:
        super().__init__()
        self.register_buffer("texts", texts)
        self.register_buffer("keys", keys)
        self.register_buffer("values", values)
        self.scale, self.alpha, self.beta = scale, alpha, beta

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of each class."""
        unit = F.normalize(x, dim=1)
        affinity = torch.exp(-self.beta * (1 - unit @ self.get_buffer("keys").T))
        return self.scale * unit @ self.get_buffer("texts").T + self.alpha * affinity @ self.get_buffer("values")


def tune_tip(data: TuningData) -> Tuned:
    """Tip-Adapter without training: a cache of the training images, its weight and sharpness chosen on validation.

    Args:
        data: with class embeddings, one label per sample.

    Returns:
        The choice: "alpha" and "beta".

    Raises:
        ValueError: no texts, or several labels per sample.

    Source:
        Zhang et al., Tip-Adapter (2022). The released code searches alpha and beta on the test set.
    """
    texts = _texts(data, "tip_adapter")
    unit = F.normalize(data.features, dim=1)
    rows = data.validation_rows()
    zero_shot = data.logit_scale * cosines(data, unit[rows])
    tried = [{"alpha": 0.0, "beta": 1.0, "validation": data.score(zero_shot, rows)}]
    for beta in (0.5, 1.0, 2.0, 5.5, 10.0, 20.0, 40.0):
        cache = torch.cat(
            [
                torch.exp(-beta * (1 - unit[fold.validation] @ unit[fold.train].T)) @ data.targets(fold.train)
                for fold in data.folds
            ]
        )
        for alpha in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0):
            score = data.score(zero_shot + alpha * cache, rows)
            tried.append({"alpha": alpha, "beta": beta, "validation": score})
    best = max(tried, key=lambda each: each["validation"])
    head = CacheHead(texts, unit, data.targets(), data.logit_scale, best["alpha"], best["beta"]).eval()
    chosen = {"alpha": best["alpha"], "beta": best["beta"]}
    return Tuned("tip_adapter", chosen, best["validation"], head, tuple(tried), data.metric)


def tune_logistic(data: TuningData) -> Tuned:
    """scikit-learn's logistic regression on unit-length features, C searched on validation: the probe without texts.

    Args:
        data: one label per sample; each class in each fold's training part.

    Returns:
        The choice: "C".

    Raises:
        ValueError: several labels per sample, or a fold without a class.
    """
    from sklearn.linear_model import LogisticRegression

    if data.several:
        raise ValueError(f"logistic takes one label per sample, got labels of shape {tuple(data.labels.shape)}")
    unit = F.normalize(data.features, dim=1).cpu().numpy()
    rows = data.validation_rows()
    labels = data.labels.numpy()
    for fold in data.folds:
        lacking = torch.bincount(data.labels[fold.train], minlength=data.classes) == 0
        if bool(lacking.any()):
            raise ValueError(f"logistic: class {int(lacking.nonzero()[0])} has no image left to train on")
    tried = []
    for power in range(-2, 13):
        strength = 10.0 ** (power / 2)
        parts = [
            LogisticRegression(C=strength, max_iter=500).fit(unit[fold.train], labels[fold.train])
            for fold in data.folds
        ]
        scores = torch.cat(
            [_columns(part, unit[fold.validation]) for part, fold in zip(parts, data.folds, strict=True)]
        )
        tried.append({"C": strength, "validation": data.score(scores, rows)})
    best = max(tried, key=lambda each: each["validation"])
    model = LogisticRegression(C=best["C"], max_iter=500).fit(unit, labels)
    weight, bias = torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_).float()
    if data.classes == 2:
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    return Tuned("logistic", {"C": best["C"]}, best["validation"], linear_head(weight, bias), tuple(tried), data.metric)


def _columns(model: object, x: object) -> Tensor:
    """One column of scores per class, also for two classes."""
    scores = torch.as_tensor(model.decision_function(x))  # type: ignore[attr-defined]  # scikit-learn has no types
    return torch.stack([-scores, scores], dim=1) if scores.ndim == 1 else scores
