"""The words of each class: names, synonyms, a published list, and what stands for the background."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gate_runner.errors import DataError, UsageError
from gate_runner.settings.values import list_content
from knowledge_prompts import class_embeddings
from knowledge_prompts.class_words import ClassWords

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float
    from torch import Tensor

_SEPARATOR = re.compile(r"\s*[;,]\s*")


@dataclass(frozen=True)
class Words:
    """Words, and the class that each stands for.

    Args:
        words: each once for a class.
        of_class: the index of each word's class.
        background: the index of the class that is background; None where there is none.
        source: where the words are from, in words.
        digest: MD5 of the file that they are from; empty for none.
    """

    words: tuple[str, ...]
    of_class: tuple[int, ...]
    background: int | None
    source: str
    digest: str = ""

    def embedded(
        self, encode: Callable[[Sequence[str]], np.ndarray], wording: ClassWords
    ) -> tuple[Float[Tensor, "w d"], tuple[str, ...]]:
        """Return each word's vector of length 1, the mean over templates, and the templates.

        Each text is encoded once.
        """
        named, different = replace(wording, words=""), tuple(dict.fromkeys(self.words))
        weights = torch.from_numpy(class_embeddings(encode, named.built(different)).weights).float()
        rows = [different.index(word) for word in self.words]
        return weights[rows], tuple(named.by_template(different))

    @property
    def sentence(self) -> str:
        """How many words there are for how many classes, and where they are from."""
        classes = len(set(self.of_class))
        alone = self.background is not None and self.background not in self.of_class
        return f"{len(self.words)} words for {classes} classes{', none for the background' * alone} ({self.source})"


def words_of(
    classes: Sequence[str],
    *,
    file: Path | None = None,
    synonyms: Mapping[str, Sequence[str]] | None = None,
    background: str = "",
    by_threshold: bool = False,
    wording: ClassWords | None = None,
    published: str = "",
) -> Words:
    """Return the words of classes.

    Args:
        classes: the data's names, in order.
        file: a list as papers publish it: a line for each class in order, its words between commas or semicolons.
        synonyms: more words for a class, by its name.
        background: the name of the class that is background; empty for none.
        by_threshold: whether the background has no word, and is what no word is sure of.
        wording: what the classes are called.
        published: MD5 of a list that is taken as it is, although two of its classes may share a word: the first of
            them then has it, as in the published codes, and the words' source names it.

    Raises:
        DataError: the file cannot be read, or has another number of lines than there are classes.
        UsageError: two classes have the same word; both are named. A synonym is for a class that is not there.
    """
    place = None
    if background:
        if background not in classes:
            raise UsageError(f"background class {background!r} is not among the classes: {', '.join(classes[:8])}")
        place = classes.index(background)
    if by_threshold and place is None:
        raise UsageError("background=threshold needs data with a background class, and these have none")
    if file is not None:
        lists, digest = _read(file, classes)
        source = file.name
    else:
        more = dict(synonyms or {})
        if strange := [name for name in more if name not in classes]:
            raise UsageError(f"synonyms are given for {strange[0]!r}, which is no class: {', '.join(classes[:8])}")
        called = (wording or ClassWords()).named(classes)
        lists = [[word, *more.get(name, ())] for name, word in zip(classes, called, strict=True)]
        digest, source = "", "the data's names" + (", with synonyms" if more else "")
    if by_threshold and place is not None:
        lists[place] = []
    owner: dict[str, int] = {}
    pairs = [(word, index) for index, words in enumerate(lists) for word in dict.fromkeys(words)]
    for word, index in pairs:
        if owner.setdefault(word, index) != index:
            if digest and digest == published:
                source = f"{source}, {word!r} is both {classes[owner[word]]!r} and {classes[index]!r}"
            else:
                raise UsageError(
                    f"the word {word!r} stands for two classes, {classes[owner[word]]!r} and {classes[index]!r}: "
                    "give one of them another word"
                )
    return Words(tuple(word for word, _ in pairs), tuple(index for _, index in pairs), place, source, digest)


def _read(file: Path, classes: Sequence[str]) -> tuple[list[list[str]], str]:
    """Return the words of each line, and the file's digest."""
    content = list_content(file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"words {file} cannot be read: {error}") from error
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) != len(classes):
        raise DataError(
            f"words {file} has {len(lines)} lines, and there are {len(classes)} classes ({classes[0]!r} to "
            f"{classes[-1]!r}): a line for each, in this order"
        )
    lists = [[word for word in _SEPARATOR.split(line.strip()) if word] for line in lines]
    if empty := [number for number, words in enumerate(lists, start=1) if not words]:
        raise DataError(f"words {file}, line {empty[0]}: no word for the class {classes[empty[0] - 1]!r}")
    return lists, hashlib.md5(content, usedforsecurity=False).hexdigest()


LISTS = {
    "voc21": "cls_voc21.txt",
    "context60": "cls_context60.txt",
    "coco-object": "cls_coco_object.txt",
    "voc20": "cls_voc20.txt",
    "pascal": "cls_context59.txt",
    "coco-164k": "cls_coco_stuff.txt",
    "cityscapes": "cls_city_scapes.txt",
    "ade20k": "cls_ade20k.txt",
}
"""What published codes call the list of each set, in one folder."""


def list_of(path: Path | None, name: str) -> Path | None:
    """Return the list of a set: the file itself, or of a folder the one that the published codes call so.

    Raises:
        DataError: the folder has no list for the set.
    """
    if path is None or not path.is_dir():
        return path
    if name not in LISTS:
        raise DataError(f"class_words {path} is a folder of published lists, and has none for these data: name a file")
    file = path / LISTS[name]
    if not file.is_file():
        raise DataError(f"class_words {path} has no {LISTS[name]}, the list for {name}")
    return file


def background_of(training: Mapping[str, Any], classes: Sequence[str]) -> str:
    """Return the class that a benchmark calls background: as it says, or the one of that name."""
    named = training.get("background")
    if named is not None:
        return str(named)
    return "background" if "background" in classes else ""
