"""What was predicted for each tested sample: kept beside its outcome, and said in words beside the truth.

A task type's ``say`` is one of these functions, from data, what was predicted of one sample, and the sample's index.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gate_data.data import Data


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


def mistaken(predicted: Int[Tensor, "n h w"], truth: Int[Tensor, "n h w"], classes: int) -> Float[np.ndarray, "n 3"]:
    """Of each class map the two classes that are confused most: what is there, what it is taken for, its share.

    Example:
        >>> import torch
        >>> mistaken(torch.tensor([[[1, 1, 0, 2]]]), torch.tensor([[[1, 2, 2, -100]]]), 3).round(2).tolist()
        [[2.0, 0.0, 0.33000001311302185]]
    """
    found = np.full((len(truth), 3), (-1.0, -1.0, 0.0), np.float32)
    for row, (said, true) in enumerate(zip(predicted.long(), truth.long(), strict=True)):
        wrong = (true >= 0) & (said != true)
        if bool(wrong.any()):
            counts = torch.bincount(true[wrong] * classes + said[wrong])
            most = int(counts.argmax())
            found[row] = most // classes, most % classes, int(counts[most]) / int((true >= 0).sum())
    return found


def a_class(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The name of a class or an answer.

    Example:
        >>> import torch
        >>> from gate_data.data import Data, Split
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


def an_episode(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """Which of an episode's classes its queries were taken for, numbered from 1: the three most frequent mistakes.

    Example:
        >>> said = np.array([[0, 0, 0], [2, 2, 1], [2, 2, -1]])  # a row per class; -1 where no query is
        >>> an_episode(None, said, 0)
        '6 of 8 queries right; class 2 taken for class 3 (twice)'
    """
    own = np.arange(len(predicted))[:, None]
    asked, wrong = predicted >= 0, (predicted >= 0) & (predicted != own)
    pairs = Counter((row, int(predicted[row, place])) for row, place in zip(*map(list, np.nonzero(wrong)), strict=True))
    often = {1: "once", 2: "twice"}
    listed = [f"class {row + 1} taken for class {other + 1} ({often.get(count, f'{count} times')})"
              for (row, other), count in pairs.most_common(3)]  # fmt: skip
    right = f"{int(asked.sum() - wrong.sum())} of {int(asked.sum())} queries right"
    return "; ".join([right, ", ".join(listed)] if listed else [right])


def a_map(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The two classes of a class map that are confused most, see `mistaken`."""
    truth, other, share = predicted.tolist()
    if truth < 0:
        return "every pixel right"
    return f"{data.classes[int(truth)]} taken for {data.classes[int(other)]} on {share:.0%} of the pixels"


def objects(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """How many of a picture's objects its best boxes found, and the class that is missed most.

    Example:
        >>> from types import SimpleNamespace
        >>> objects(SimpleNamespace(classes=("cat", "dog")), np.array([3, 1, 1]), 0)
        '1 of 3 objects found by the best 3 boxes; missed most: dog'
    """
    count, found, missed = predicted.tolist()
    boxes = "box" if count == 1 else f"{count} boxes"
    said = f"{found} of {count} object{'s' * (count != 1)} found by the best {boxes}"
    if missed < 0:
        return said
    return f"{said}; missed{' most' * (count - found > 1)}: {data.classes[missed]}"


def a_pair(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The caption that each of two pictures is more similar to."""
    first, second = ((data.test.texts or ())[2 * index + int(choice)] for choice in predicted)
    return f"“{first}” for the first picture, “{second}” for the second"
