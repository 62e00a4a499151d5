"""What was predicted for each tested sample: kept beside its outcome, and said in words beside the truth.

A task type's ``say`` is one of these functions, from data, what was predicted of one sample, and the sample's index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gate_runner.benchmarks.data import Data


def best(scores: Float[Tensor, "n k"]) -> Int[np.ndarray, " n"]:
    """The class with the highest score of each sample, the first of equal ones.

    Example:
        >>> import torch
        >>> best(torch.tensor([[0.1, 0.9], [0.5, 0.5]])).tolist()
        [1, 0]
    """
    return scores.argmax(dim=1).int().cpu().numpy()


def likely(probabilities: Float[Tensor, "n k"]) -> Bool[np.ndarray, "n k"]:
    """The labels that are more likely than not.

    Example:
        >>> import torch
        >>> likely(torch.tensor([[0.1, 0.9]])).tolist()
        [[False, True]]
    """
    found: np.ndarray = (probabilities > 0.5).cpu().numpy()
    return found


def values(predictions: Float[Tensor, " n"]) -> Float[np.ndarray, " n"]:
    """The values themselves."""
    return predictions.float().cpu().numpy()


def a_class(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The name of a class or an answer.

    Example:
        >>> import torch
        >>> from gate_runner.benchmarks.data import Data, Split
        >>> one = Split(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), torch.tensor([0]))
        >>> a_class(Data(one, one, one, ("cat", "dog")), np.array(1), 0)
        'dog'
    """
    return data.classes[int(predicted)]


def labels(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The labels that are more likely than not, of several."""
    return ", ".join(name for name, there in zip(data.classes, predicted, strict=True) if there) or "none"


def heads(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """A class of each head."""
    of_head: dict[str, list[str]] = {}
    for name in data.classes:
        head, _, short = name.partition("/")
        of_head.setdefault(head, []).append(short)
    return ", ".join(names[int(place)] for names, place in zip(of_head.values(), predicted, strict=True))


def a_value(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """A number."""
    return f"{float(predicted):.3g}"


def a_caption(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """One of all captions of the test split."""
    return (data.test.texts or ())[int(predicted)]


def a_choice(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """One of the captions that the sample offers."""
    texts = data.test.texts or ()
    return texts[len(texts) // len(data.test) * index + int(predicted)]


def a_pair(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The caption that each of two pictures is more similar to."""
    first, second = ((data.test.texts or ())[2 * index + int(choice)] for choice in predicted)
    return f"“{first}” for the first picture, “{second}” for the second"
