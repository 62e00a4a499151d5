"""Prompts of every class: templates combined with knowledge, each prompt with the source that it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from knowledge_prompts.prompts.class_prompts import PLACEHOLDER, ClassPrompts, as_listed, check_class_names
from knowledge_prompts.sources.knowledge import Sources, as_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

Style = Literal["paper", "toolkit"]
PLAIN = "plain"


class Prompt(NamedTuple):
    """One text that stands for a class.

    Args:
        text: What the text encoder is given.
        class_index: Position of the class, from 0.
        class_name: Name of the class.
        source: Name of the knowledge source, or ``plain`` for a template without knowledge.
        base: The filled template, without the knowledge.
        item: The knowledge, as the source gives it; empty for ``plain``.
    """

    text: str
    class_index: int
    class_name: str
    source: str
    base: str
    item: str


@dataclass(frozen=True)
class PromptSet:
    """The prompts of every class, in class order.

    Args:
        classes: Class names in label order.
        prompts: For each class its prompts.
        sources: Names of the knowledge sources that were asked.

    Example:
        >>> from knowledge_prompts import ClassPrompts, build_prompts
        >>> prompts = build_prompts(ClassPrompts("birds", ["a photo of a {}."], ["hen", "cock"]))
        >>> len(prompts), prompts.texts(1)
        (2, ['a photo of a cock.'])
    """

    classes: tuple[str, ...]
    prompts: tuple[tuple[Prompt, ...], ...]
    sources: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(len(group) for group in self.prompts)

    def __iter__(self) -> Iterator[Prompt]:
        return (prompt for group in self.prompts for prompt in group)

    def texts(self, class_index: int) -> list[str]:
        """Texts of one class."""
        return [prompt.text for prompt in self.prompts[class_index]]

    def unique_texts(self) -> list[str]:
        """Every different text once, in the order of its first use."""
        return list(dict.fromkeys(prompt.text for prompt in self))

    @property
    def without_knowledge(self) -> list[str]:
        """Classes that no source knows; they keep their plain prompts."""
        if not self.sources:
            return []
        return [
            name
            for name, group in zip(self.classes, self.prompts, strict=True)
            if all(prompt.source == PLAIN for prompt in group)
        ]


def as_prompt_set(prompts: PromptSet | Sequence[str] | Mapping[str, Sequence[str]]) -> PromptSet:
    """Return a prompt set from what a caller may give: a set, texts by class name, or a text for each class.

    Raises:
        TypeError: Anything else; shows it.
        ValueError: No class, a class twice, or a class without texts; shows it.
    """
    if isinstance(prompts, PromptSet):
        return prompts
    if isinstance(prompts, Mapping):
        prompts = {name: texts if isinstance(texts, str) else tuple(texts) for name, texts in prompts.items()}
        for name, texts in prompts.items():
            if not texts:
                raise ValueError(f"class {name!r} has no texts; expected at least one")
        return build_prompts(ClassPrompts("own", [PLACEHOLDER], tuple(prompts), texts=dict(prompts)))
    sequence = isinstance(prompts, Sequence) and not isinstance(prompts, str)
    if sequence and all(isinstance(text, str) for text in prompts):
        return build_prompts(ClassPrompts("own", [PLACEHOLDER], tuple(prompts)), classes=tuple(prompts))
    raise TypeError(
        f"prompts is {prompts!r:.80}; expected what build_prompts gives, a list of texts, or lists of texts by class"
    )


def join_knowledge(base: str, item: str, class_name: str, style: Style = "paper") -> str:
    """One prompt from a filled template and one item of knowledge.

    ``paper``: ``base ; item``, the template's full stop dropped, as in the paper's table 7.
    ``toolkit``: ``base ; class , item``, the part after the template split into words as the toolkit does.

    Source: ELEVATER, section C.5 and table 7; the toolkit's form from its text-feature extraction.
    """
    if check_style(style) == "paper":
        return f"{base.rstrip().removesuffix('.')} ; {item.strip()}"
    return f"{base} {' '.join(treebank_words(f' ; {class_name} , {item}'))}"


def check_style(style: str) -> Style:
    """The style, if it is one."""
    if style == "paper":
        return "paper"
    if style == "toolkit":
        return "toolkit"
    raise ValueError(f"style is {style!r}; expected 'paper' or 'toolkit'")


def build_prompts(
    class_prompts: ClassPrompts,
    sources: Sources = (),
    *,
    classes: Sequence[str] | None = None,
    style: Style = "paper",
    with_plain: bool = False,
) -> PromptSet:
    """All combinations of a class's templates with its items of knowledge.

    A class that no source knows keeps its plain prompts and is listed in `PromptSet.without_knowledge`. An item that
    two sources give is kept once, under the first of them.

    Args:
        class_prompts: Templates, class names, and texts of a class's own.
        sources: Knowledge sources, a single one, or texts by class name; their items are combined.
        classes: Class names in place of those of ``class_prompts``.
        style: ``paper`` (``template ; knowledge``) or ``toolkit`` (``template ; class , knowledge``).
        with_plain: Keep the plain prompts beside those with knowledge.

    Returns:
        The prompts of each class, in class order: templates vary fastest, then items, then sources.

    Raises:
        TypeError: Something that is not a `ClassPrompts`, or not a source; shows it.
        ValueError: No classes, a class name twice, two sources of one name, or an unknown style; the message shows
            which.

    Example:
        >>> from knowledge_prompts import ClassPrompts, StoredKnowledge
        >>> fish = StoredKnowledge({"tench": ["A freshwater fish."]}, name="wiktionary")
        >>> prompts = build_prompts(ClassPrompts("own", ["a photo of a {}."], ["tench", "orca"]), [fish])
        >>> [prompt.text for prompt in prompts]
        ['a photo of a tench ; A freshwater fish.', 'a photo of a orca.']
        >>> prompts.without_knowledge
        ['orca']

    Source: ELEVATER, section 4 (every combination of prompts and items is averaged) and C.5. The toolkit lets its
        sources overwrite one another; here they are combined.
    """
    if not isinstance(class_prompts, ClassPrompts):
        raise TypeError(
            f"class_prompts is {class_prompts!r:.80}; expected ClassPrompts(name, templates, classes), "
            f"or load_class_prompts(name or path)"
        )
    names = as_listed(class_prompts.classes if classes is None else classes, "classes")
    check_class_names(names, repeated=class_prompts.repeated)
    listed = as_sources(sources)
    check_style(style)
    groups: list[tuple[Prompt, ...]] = []
    for index, name in enumerate(names):
        plain = class_prompts.plain(name)
        group: list[Prompt] = []
        used: set[str] = set()
        for source in listed:
            for item in source.items(name):
                if item.strip() in used:
                    continue
                used.add(item.strip())
                if source.whole:
                    group.append(Prompt(item.strip(), index, name, source.name, item.strip(), ""))
                else:
                    group += [
                        Prompt(join_knowledge(base, item, name, style), index, name, source.name, base, item.strip())
                        for base in plain
                    ]
        if with_plain or not group:
            group = [Prompt(base, index, name, PLAIN, base, "") for base in plain] + group
        groups.append(tuple(group))
    return PromptSet(names, tuple(groups), tuple(source.name for source in listed))


_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # Quotation marks that open, then all others: they become `` and ''.
        (r'^"', "`` "),
        (r'([\s(\[{<])"', r"\1 `` "),
        # A full stop ends a word only at the end of a sentence; commas and colons stay inside numbers.
        (r"\.(?=[\"')\]}>]*(?:\s+[\"'(\[{<]*[A-Z]|\s*$))(?<!\.\.)", " . "),
        (r"([:,])(?=\D|$)", r" \1 "),
        (r"\.\.\.", " ... "),
        (r"([;@#$%&?!])", r" \1 "),
        (r"([\[\](){}<>])", r" \1 "),
        (r"--", " -- "),
        (r'"', " '' "),
        # Contractions and possessives.
        (r"([^'\s])('(?:s|m|d|ll|re|ve)?)(?=\s|$)", r"\1 \2"),
        (r"([^'\s])(n't)\b", r"\1 \2"),
        (r"\b(can)(not)\b", r"\1 \2"),
    )
)
_SENTENCE_END = _RULES[2][0]


def treebank_words(text: str) -> list[str]:
    r"""Split a text into words and punctuation marks.

    Source: the Penn Treebank's tokenisation; the toolkit calls NLTK for it. A full stop before a capital letter counts
        as the end of a sentence here, whereas NLTK uses a trained model: the two agree where no abbreviation is
        followed by a capital. CLIP's tokeniser ignores where the spaces are.
    """
    for pattern, replacement in _RULES:
        if pattern is _SENTENCE_END:
            # A capital letter must be one: this rule alone is sensitive to case.
            text = re.sub(pattern.pattern, replacement, text)
        else:
            text = pattern.sub(replacement, text)
    return text.split()
