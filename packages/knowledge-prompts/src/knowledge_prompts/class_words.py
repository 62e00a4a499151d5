"""Words for classes: from a folder's names to the texts that a text encoder is given, with knowledge where asked for.

Nobody should prompt with ``n01440764``: names come from a file, from a prompt set, or, of ImageNet's ids, from WordNet.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wary_files.class_names import by_number, file_and_list, laid_in_order, names_from_file, plain_name, texts_of
from wary_files.errors import UsageError, unknown
from wary_files.text import parsed_json

if TYPE_CHECKING:
    from knowledge_prompts import ClassPrompts, KnowledgeSource, PromptSet

TEMPLATE = "a photo of a {}"
_ID = re.compile(r"n(\d{8})")
_IMAGENET_1K = "791ce0333040dd249d13133f90d28ef0263ffc01e5de0afd85b3e32048d7d456"
"""SHA-256 of the thousand ids of ILSVRC 2012, sorted, with blanks between."""
_SETS = {"imagenet": "imagenet-1k"}
"""Prompt sets by the names that people use for them."""


@dataclass(frozen=True)
class ClassWords:
    """How the names of classes become texts: templates, a prompt set, words for names, and knowledge.

    ``templates`` have ``{}`` for the name, or are built-in sets (``imagenet``: its 80), whose templates are taken with
    the data's own names, or a ``.json`` list of templates; ``FILE.json#NAME`` is one of several lists.
    ``prompts`` is one of `built_in_sets`, or one's own file, whose class names stand for
    the data's, matched by name; by number where the data's classes are the numbers from 0, or 1, on; of one's own file
    in order where that is the only one. ``words`` is a file from the data's names to words, or of a line per class.
    ``knowledge`` is ``wordnet``, a dump of Wiktextract, a ``.json`` of descriptors, a folder of ELEVATER's files, or
    ``NAME=PATH`` of any of `source_names`.

    Raises:
        UsageError: ``templates`` or ``knowledge`` is one text.

    Example:
        >>> words = ClassWords(templates=("a photo of a {}", "a drawing of a {}"))
        >>> words.built(["001.Black_footed_Albatross", "002.Laysan_Albatross"]).texts(1)
        ['a photo of a Laysan Albatross', 'a drawing of a Laysan Albatross']
    """

    templates: tuple[str, ...] = ()
    prompts: str = ""
    words: str = ""
    knowledge: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, value in (("templates", self.templates), ("knowledge", self.knowledge)):
            if isinstance(value, str):
                raise UsageError(f"{field} is one text, {value!r}; expected several: ({value!r},)")

    def built(self, classes: Sequence[str]) -> PromptSet:
        """Return the texts of each class, in the order of the classes.

        Raises:
            UsageError: a template without ``{}``, an unknown set, a class that the set lacks, or a source that cannot
                be read; the message shows it, with the nearest name if there is one.
        """
        from knowledge_prompts import build_prompts

        try:
            prompts = self._prompts(classes)
            return build_prompts(prompts, self._sources(prompts))
        except (ValueError, OSError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(str(error)) from error

    def by_template(self, classes: Sequence[str]) -> dict[str, PromptSet]:
        """Return the texts of each class by each template alone; nothing if the classes have texts of their own."""
        from knowledge_prompts import build_prompts

        prompts = self._prompts(classes)
        if prompts.texts:
            return {}
        sources = self._sources(prompts)
        return {
            template: build_prompts(replace(prompts, templates=(template,)), sources) for template in prompts.templates
        }

    def named(self, classes: Sequence[str]) -> tuple[str, ...]:
        """Return what classes are called before a prompt set is read: by the file of names, WordNet, or as they are.

        ``GROUP/CLASS`` is the class alone, if no two groups have one of the same name. Numbers that only put the
        classes into an order, as in ``001.Black_footed_Albatross``, are left out.

        Raises:
            UsageError: a file of names that lacks a class or can be read in two ways; see
                `wary_files.class_names.names_from_file`.
        """
        if self.words:
            return names_from_file(Path(self.words), classes)
        if all(_ID.fullmatch(name) for name in classes):
            words = _from_wordnet(classes)
            if words is not None:
                return words
        inner = [name.rpartition("/")[2] for name in classes]
        alone = all("/" in name for name in classes) and len(set(inner)) == len(inner)
        return tuple(name.replace("_", " ") for name in without_numbers(inner if alone else classes))

    def _prompts(self, classes: Sequence[str]) -> ClassPrompts:
        from knowledge_prompts import ClassPrompts, load_class_prompts

        base = load_class_prompts(_SETS.get(self.prompts, self.prompts)) if self.prompts else None
        words = list(self.named(classes)) if base is None or not base.classes else self._matched(classes, base)
        templates = self._templates() or (base.templates if base is not None else (TEMPLATE,))
        twice = [name for name, count in Counter(words).items() if count > 1]
        if base is None:
            return ClassPrompts("own", templates, words, repeated=twice)
        listed = set(words)
        return ClassPrompts(
            base.name,
            templates,
            words,
            repeated=twice,
            aliases={name: texts for name, texts in base.aliases.items() if name in listed},
            texts={} if self.templates else {name: texts for name, texts in base.texts.items() if name in listed},
        )

    def _templates(self) -> tuple[str, ...]:
        """The templates, those of a set that is named in their place."""
        from knowledge_prompts import built_in_sets, load_class_prompts

        texts: list[str] = []
        for template in self.templates:
            if "{" not in template and (template in _SETS or template in built_in_sets()):
                texts += load_class_prompts(_SETS.get(template, template)).templates
            else:
                file, chosen = file_and_list(template)
                texts += _templates_in(file, chosen) if file.suffix == ".json" else [template]
        return tuple(dict.fromkeys(texts))

    def _matched(self, classes: Sequence[str], base: ClassPrompts) -> list[str]:
        """The set's names for the data's classes: by name, by ImageNet's ids, or by number."""
        if not self.words and len(classes) == len(base.classes) and _are_imagenets(classes):
            name_of = dict(zip(sorted(classes), base.classes, strict=True))  # its sets are in the order of the ids
            return [name_of[name] for name in classes]
        class_of = {plain_name(name): name for name in base.classes}
        words = self.named(classes)
        matches = [class_of.get(plain_name(name)) for name in words]
        lacking = [name for name, match in zip(words, matches, strict=True) if match is None]
        unnamed = not self.words and not all(map(_ID.fullmatch, classes))
        if unnamed and len(lacking) == len(classes) == len(base.classes):
            places = by_number(classes)
            if places is not None:
                return [base.classes[place] for place in places]
            if Path(self.prompts).suffix:  # one's own file, whose order one chooses
                return list(laid_in_order(classes, base.classes, f"prompts {self.prompts}"))
        if lacking:
            near = difflib.get_close_matches(plain_name(lacking[0]), class_of, n=1)
            hint = f"; nearest: {class_of[near[0]]!r}" if near else ""
            raise UsageError(
                f"prompt set {base.name!r} lacks {len(lacking)} of {len(classes)} classes, such as {lacking[0]!r}{hint}"
                f"; 'words', a file, can call your classes by its names, and 'templates' {self.prompts} takes its "
                "templates with your own names"
            )
        return [match for match in matches if match is not None]

    def _sources(self, prompts: ClassPrompts) -> list[KnowledgeSource]:
        from knowledge_prompts import WordNet, gather_sources

        live = WordNet() if "wordnet" in self.knowledge else None
        listed = [_spec(source) for source in self.knowledge if source != "wordnet"]
        return gather_sources(prompts, wordnet=live, sources=listed)


def _templates_in(file: Path, chosen: str) -> list[str]:
    """Templates of a file, with ``{}`` or ``{c}`` for the name."""
    where = f"templates {file}"
    try:
        content = parsed_json(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: {getattr(error, 'strerror', None) or error}") from error
    return [text.replace("{c}", "{}") for text in texts_of(content, chosen, where)]


_NUMBERED = re.compile(r"([0-9]{1,6})[._-]+(?=.*[^\W\d_])(.+)", re.DOTALL)


def without_numbers(names: Sequence[str]) -> list[str]:
    """Return names without the numbers before them, where these count all of the classes from 0, or 1, on.

    Example:
        >>> without_numbers(["001.Black_footed_Albatross", "002.Laysan_Albatross"])
        ['Black_footed_Albatross', 'Laysan_Albatross']
        >>> without_numbers(["2-door", "4-door"])
        ['2-door', '4-door']
    """
    parts = [match.groups() for name in names if (match := _NUMBERED.fullmatch(name))]
    numbers = sorted(int(number) for number, _ in parts)
    counted = len(parts) == len(names) and numbers in (list(range(len(parts))), list(range(1, len(parts) + 1)))
    return [name for _, name in parts] if counted and len({name for _, name in parts}) == len(parts) else list(names)


def plainly_read(knowledge: str, unknown: Sequence[str], classes: int) -> str:
    """Return a sentence on the classes that a kind of knowledge has nothing on; empty if there are none.

    Args:
        knowledge: name of the kind.
        unknown: classes that it has nothing on.
        classes: number of all classes.

    Example:
        >>> plainly_read("wordnet", ["xyzzy"], 3)
        'wordnet has nothing on 1 of 3 classes, read by name alone: xyzzy'
    """
    names = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
    return (
        f"{knowledge} has nothing on {len(unknown)} of {classes} classes, read by name alone: {names}" if names else ""
    )


WORDS = ("templates", "prompts", "words", "knowledge")
"""Fields of a benchmark's ``training`` that say how the names of its classes become texts."""


def words_in(training: Mapping[str, Any]) -> ClassWords | None:
    """Return what a benchmark's settings say of its classes' texts, or None if they say nothing.

    Args:
        training: settings of a benchmark, of which those of `WORDS` are read.

    Example:
        >>> words_in({"prompts": "imagenet", "steps": 8})
        ClassWords(templates=(), prompts='imagenet', words='', knowledge=())
    """
    if not any(training.get(name) for name in WORDS):
        return None
    return ClassWords(
        tuple(training.get("templates") or ()),
        training.get("prompts") or "",
        training.get("words") or "",
        tuple(training.get("knowledge") or ()),
    )


def words_by_content(training: Mapping[str, Any], digests_of: Callable[[Sequence[str]], Sequence[str]]) -> list[Any]:
    """Return what a benchmark's settings say of its classes' texts, with the content of files in place of their paths.

    Two settings with equal answers read the same texts, wherever their files are.

    Args:
        training: settings of a benchmark, of which those of `WORDS` are read.
        digests_of: from the paths of files to digests of what they hold, in order.

    Returns:
        A list of JSON values, one for each text of the settings.

    Example:
        >>> words_by_content({"prompts": "imagenet", "knowledge": ["wordnet"]}, lambda files: files)
        [['prompts', 'imagenet'], ['knowledge', 'wordnet']]
    """
    contents: list[Any] = []
    for field in WORDS:
        value = training.get(field) or ()
        for text in (value,) if isinstance(value, str) else value:
            contents.append([field, *_by_content(text, digests_of, folders=field == "knowledge")])
    return contents


def _by_content(text: str, digests_of: Callable[[Sequence[str]], Sequence[str]], *, folders: bool) -> list[Any]:
    """A text of the settings; of a file its ending and digest, of a folder those of all its files, with what is around.

    ``FILE.json#NAME`` and ``NAME=PATH`` name a place, too.
    """
    places = (text, str(file_and_list(text)[0]), text.partition("=")[2] if folders else "")
    for place in filter(None, places if text else ()):
        before, _, after = text.partition(place)
        if os.path.isfile(place):  # noqa: PTH113 - no text is too long
            return [before, Path(place).suffix, *digests_of([place]), after]
        if folders and os.path.isdir(place):  # noqa: PTH112
            files = sorted(str(file) for file in Path(place).rglob("*") if file.is_file())
            names = [Path(file).relative_to(place).as_posix() for file in files]
            return [before, list(zip(names, digests_of(files), strict=True)), after]
    return [text]


def built_in_knowledge(sources: Iterable[str], file: Path) -> tuple[str, ...]:
    """Return sources of knowledge that a file names, which may choose no plug-in.

    Args:
        sources: ``NAME=PATH`` of this package's own sources, ``wordnet``, or a path.
        file: the file that names them, for errors.

    Raises:
        UsageError: a source of another package; shows its name and those that may be chosen.

    Example:
        >>> built_in_knowledge(["wordnet", "cupl=prompts.json"], Path("benchmark.toml"))
        ('wordnet', 'cupl=prompts.json')
    """
    listed = tuple(sources)
    for name, sign, _ in (source.partition("=") for source in listed):
        if sign:
            from knowledge_prompts import source_names

            names = source_names(plug_ins=False)
            if name not in names:
                raise unknown(f"source of knowledge that {file} may choose:", name, names)
    return listed


def _spec(text: str) -> str:
    """``NAME=PATH``, as ``knowledge_prompts`` takes it."""
    if "=" in text:
        return text
    if text == "wiktionary":
        raise UsageError("knowledge 'wiktionary' needs Wiktextract's dump: wiktionary=FILE.jsonl.gz")
    path = Path(text)
    if not path.exists():
        raise UsageError(f"knowledge {text!r} is neither wordnet, NAME=PATH nor a file or folder that is there")
    if path.is_dir():
        return f"elevater={text}"
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return f"wiktionary={text}"
    if path.suffix == ".json":
        return f"visual-descriptors={text}"
    raise UsageError(f"knowledge {text!r}: expected .jsonl, .jsonl.gz or .json, a folder, or NAME={text}")


def _are_imagenets(classes: Sequence[str]) -> bool:
    return hashlib.sha256(" ".join(sorted(classes)).encode("utf-8", "surrogateescape")).hexdigest() == _IMAGENET_1K


def _from_wordnet(ids: Sequence[str]) -> tuple[str, ...] | None:
    """The first word of each of ImageNet's ids, which are places in WordNet 3.0; None where it is not installed."""
    from knowledge_prompts import WordNet

    try:
        files = WordNet().files
        words = tuple(files.synset("n", int(name[1:])).words[0].replace("_", " ") for name in ids)
    except (OSError, ValueError, LookupError):
        return None
    return words if len(set(words)) > len(words) // 2 else None
