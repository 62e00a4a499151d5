"""Prompts that are longer than the text encoder's context: found, listed, and shortened on request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from knowledge_prompts.encoding.tokens import TokenRules, token_rules
from knowledge_prompts.prompts.prompt_set import PromptSet, as_prompt_set
from wary_files.text import printable

_CHUNK = 1024


class LongPrompt(NamedTuple):
    """A prompt with more tokens than the text encoder takes.

    Args:
        text: The prompt as built.
        tokens: Its number of tokens, start and end included.
        classes: Names of the classes that have it.
        sources: Names of the sources that gave it.
        read: What the encoder reads instead, where the prompt was shortened; empty where it was cut between tokens.
    """

    text: str
    tokens: int
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    read: str = ""


@dataclass(frozen=True)
class TruncationReport:
    """Which of a set's prompts do not fit.

    Args:
        limit: Tokens that the text encoder takes.
        prompts: Number of prompts, repetitions included.
        long: Each prompt that does not fit, once.
        long_prompts: Number of prompts that do not fit, repetitions included.

    Example:
        >>> report = TruncationReport(limit=77, prompts=2, long=(), long_prompts=0)
        >>> report.classes
        []
    """

    limit: int
    prompts: int
    long: tuple[LongPrompt, ...]
    long_prompts: int

    @property
    def classes(self) -> list[str]:
        """Names of the classes with a prompt that does not fit, in the order of their first one."""
        return list(dict.fromkeys(name for prompt in self.long for name in prompt.classes))

    def lines(self, max_classes: int = 10) -> list[str]:
        """The report for people: a count, then one line per class."""
        head = f"{self.long_prompts} of {self.prompts} prompts have more than {self.limit} tokens"
        if not self.long:
            return [head]
        names = self.classes
        lines = [f"{head}, in {len(names)} classes"]
        for name in names[:max_classes]:
            own = [prompt for prompt in self.long if name in prompt.classes]
            sources = sorted({source for prompt in own for source in prompt.sources})
            longest = max(prompt.tokens for prompt in own)
            lines.append(f"  {name}: {len(own)}, the longest of {longest} tokens, from {', '.join(sources)}")
        if len(names) > max_classes:
            lines.append(f"  ... and {len(names) - max_classes} more classes")
        return [printable(line) for line in lines]


def truncation_report(
    prompts: PromptSet | Sequence[str] | Mapping[str, Sequence[str]], tokenize: Any, context_length: int | None = None
) -> TruncationReport:
    r"""Find the prompts that are longer than a text encoder's context, without encoding anything.

    Source: at commit 00d0af7 ELEVATER's toolkit cuts such prompts without a word.
    """
    rules = token_rules(tokenize, context_length)
    prompts = as_prompt_set(prompts)
    texts = prompts.unique_texts()
    lengths: list[int] = []
    for start in range(0, len(texts), _CHUNK):
        lengths += [len(row) for row in rules.ids(texts[start : start + _CHUNK])]
    return report_of(prompts, dict(zip(texts, lengths, strict=True)), rules.context_length, {})


def report_of(
    prompts: PromptSet, tokens_of: dict[str, int], limit: int, read_instead: dict[str, str]
) -> TruncationReport:
    """The report for prompts whose numbers of tokens are known."""
    classes: dict[str, list[str]] = {}
    sources: dict[str, list[str]] = {}
    count = 0
    for prompt in prompts:
        if tokens_of[prompt.text] > limit:
            count += 1
            classes.setdefault(prompt.text, []).append(prompt.class_name)
            sources.setdefault(prompt.text, []).append(prompt.source)
    long = tuple(
        LongPrompt(
            text,
            tokens_of[text],
            tuple(dict.fromkeys(names)),
            tuple(dict.fromkeys(sources[text])),
            read_instead.get(text, ""),
        )
        for text, names in classes.items()
    )
    return TruncationReport(limit, len(prompts), long, count)


def shorten(text: str, rules: TokenRules) -> str:
    """Drop words from the end until a text fits; punctuation that is left hanging goes too.

    A first word that is too long by itself stays, and is then cut between tokens.
    """
    words = text.split()
    cuts: Sequence[int] = range(1, len(words) + 1)

    def length(count: int) -> int:
        return len(rules.ids([_joined(words[:count])])[0])

    fits = bisect_right(cuts, rules.context_length, key=length)
    return _joined(words[: max(fits, 1)])


def _joined(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text.rstrip(" ;,:-(") or text
