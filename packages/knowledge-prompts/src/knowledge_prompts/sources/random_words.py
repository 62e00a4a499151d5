"""Random words in place of knowledge: the control that real knowledge must beat."""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Sequence

from knowledge_prompts.sources.knowledge import KnowledgeSource, check_least_one, generator_for


class RandomWords:
    """Knowledge source that knows nothing: words drawn at random, the same ones for the same class and seed.

    Args:
        count: Items per class, where ``like`` is None.
        words: Words per item, where ``like`` is None.
        like: A real source: each class gets as many items as it has there, each with as many words, so that a
            comparison differs in what the words say alone.
        vocabulary: Words to draw from; None for words of 2 to 9 random letters.
        seed: Seed of the draw.
        name: Name of the source.

    Raises:
        ValueError: ``count`` or ``words`` below 1, or a vocabulary without words; shows the value.

    Example:
        >>> control = RandomWords(count=2, words=3, vocabulary=["oak", "tin"], seed=1)
        >>> control.items("tench") == control.items("tench"), len(control.items("orca"))
        (True, 2)

    Numerics: A class's words depend on seed and class name only, not on the other classes or their order.

    Source: Roth et al. 2023, "Waffling around for performance": descriptions of random words match generated ones.
    """

    whole = False

    def __init__(
        self,
        *,
        count: int = 5,
        words: int = 10,
        like: KnowledgeSource | None = None,
        vocabulary: Sequence[str] | None = None,
        seed: int = 0,
        name: str = "random-words",
    ) -> None:
        check_least_one(count=count, words=words)
        if vocabulary is not None and not any(word.strip() for word in vocabulary):
            raise ValueError("vocabulary has no words; expected at least one, or None for random letters")
        self.count, self.words, self.like, self.seed, self.name = count, words, like, seed, name
        self.vocabulary = None if vocabulary is None else tuple(word for word in vocabulary if word.strip())

    def items(self, class_name: str) -> list[str]:
        """Random items."""
        if self.like is None:
            lengths = [self.words] * self.count
        else:
            lengths = [len(item.split()) for item in self.like.items(class_name)]
        generator = generator_for(class_name, self.seed)
        return [" ".join(self._word(generator) for _ in range(length)) for length in lengths]

    def _word(self, generator: random.Random) -> str:
        if self.vocabulary is not None:
            return generator.choice(self.vocabulary)
        return "".join(generator.choices(string.ascii_lowercase, k=generator.randint(2, 9)))


def vocabulary_of(source: KnowledgeSource, class_names: Iterable[str]) -> list[str]:
    """Every word that a source uses about these classes, once each, in alphabetical order."""
    return sorted({word for name in class_names for item in source.items(name) for word in item.split()})
