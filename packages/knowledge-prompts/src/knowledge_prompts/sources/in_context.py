"""The question that makes a language model explain a class: explained concepts first, then the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowledge_prompts.sources.knowledge import check_least_one, generator_for

INSTRUCTION = "Please explain the concept according to the context."


def in_context_prompt(class_name: str, examples: Sequence[tuple[str, str]]) -> str:
    r"""Questions with answers, then the question that the model completes.

    Args:
        class_name: The concept to explain.
        examples: Concepts and their explanations.

    Example:
        >>> print(in_context_prompt("snowberg", [("ship", "A water-borne vessel generally larger than a boat.")]))
        Please explain the concept according to the context.
        ===
        Q: ship
        A: A water-borne vessel generally larger than a boat.
        <BLANKLINE>
        ===
        Q: snowberg
        A:

    Source: ELEVATER's supplement, section C.4 and figure 10.
    """
    shown = "".join(f"Q: {_one_line(name)}\nA: {_one_line(text)}\n\n===\n" for name, text in examples)
    return f"{INSTRUCTION}\n===\n{shown}Q: {_one_line(class_name)}\nA:"


def sample_contexts(
    class_name: str, definitions: Mapping[str, str], *, count: int = 5, shots: int = 3, seed: int = 0
) -> list[list[tuple[str, str]]]:
    """Draw the example pairs of each question about a class, without the class itself.

    Args:
        class_name: The concept to explain.
        definitions: Definitions by class name, from Wiktionary in the paper.
        count: Number of contexts, at least 1; the paper takes five.
        shots: Example pairs in each, at least 1; the toolkit's script takes three.
        seed: Seed of the draw.

    Returns:
        ``count`` lists of pairs. With few definitions a list holds all of them, in a drawn order.

    Raises:
        ValueError: ``count`` or ``shots`` below 1, or no definition of another class; shows the value.

    Numerics: Depends on seed, class name and definitions only: each class is drawn for itself, so that adding a class
        to a data set changes no other.

    Source: ELEVATER's supplement, section C.4. The toolkit draws with replacement; here one context has no pair twice.

    Example:
        >>> known = {"hen": "a female chicken", "cock": "a male chicken", "owl": "a bird of prey"}
        >>> [len(pairs) for pairs in sample_contexts("hen", known, count=2, shots=2)]
        [2, 2]
    """
    check_least_one(count=count, shots=shots)
    candidates = sorted((name, text) for name, text in definitions.items() if name != class_name and text.strip())
    if not candidates:
        raise ValueError(f"no definition of a class other than {class_name!r}; expected at least one as an example")
    generator = generator_for(class_name, seed)
    return [generator.sample(candidates, min(shots, len(candidates))) for _ in range(count)]


def _one_line(text: str) -> str:
    return " ".join(text.split())
