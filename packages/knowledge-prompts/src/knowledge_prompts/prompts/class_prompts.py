"""Templates and class names of a data set: the built-in ones, and the user's own."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wary_files.text import parsed_json

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACEHOLDER = "{}"


@dataclass(frozen=True)
class ClassPrompts:
    """The classes of a data set and the texts that stand for them.

    Args:
        name: Identifier, as ELEVATER spells it, or the file's stem.
        templates: Texts with one ``{}`` each, where the class name goes.
        classes: Class names in label order; empty for a set that fits any classes.
        title: Name for people.
        source: Where templates and names come from.
        repeated: Class names that the data set really has more than once (ImageNet has two kinds of missile).
        aliases: Further names of a class, each filled into every template.
        texts: Whole texts of a class's own, which stand in place of the templates for that class.

    Raises:
        ValueError: A template without ``{}``, a name given twice that is not in ``repeated``, or ``aliases`` or
            ``texts`` of an unknown class; the message shows it.

    Example:
        >>> own = ClassPrompts("birds", ["a photo of a {}, a type of bird."], ["wren", "crane"])
        >>> own.plain("wren")
        ('a photo of a wren, a type of bird.',)
    """

    name: str
    templates: Sequence[str]
    classes: Sequence[str] = ()
    title: str = ""
    source: str = ""
    repeated: Sequence[str] = ()
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("templates", "classes"):
            object.__setattr__(self, name, as_listed(getattr(self, name), name))
        for name in ("aliases", "texts"):
            listed = {key: texts if isinstance(texts, str) else as_listed(texts, f"{name} of {key!r}")
                      for key, texts in getattr(self, name).items()}  # fmt: skip
            object.__setattr__(self, name, listed)
        check_templates(self.templates)
        if self.classes:
            check_class_names(self.classes, repeated=self.repeated)
            for kind, mapping in (("aliases", self.aliases), ("texts", self.texts)):
                unknown = sorted(set(mapping) - set(self.classes))
                if unknown:
                    raise ValueError(f"{kind} of {unknown[0]!r}, which is not among the {len(self.classes)} classes")
                for name, texts in mapping.items():
                    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
                        raise ValueError(f"{kind} of {name!r}: expected a list of texts, got {texts!r:.80}")

    def plain(self, class_name: str) -> tuple[str, ...]:
        """The class's prompts without any knowledge: its own texts, or every template filled with its names."""
        own = self.texts.get(class_name)
        if own:
            return tuple(own)
        names = (class_name, *self.aliases.get(class_name, ()))
        return tuple(fill(template, name) for name in names for template in self.templates)


def fill(template: str, class_name: str) -> str:
    """Put a class name where the template has ``{}``; other braces stay as they are."""
    return template.replace(PLACEHOLDER, class_name)


def as_listed(texts: Any, what: str) -> Any:
    """Return texts that an array, a series or a generator holds as a tuple; one text as it is, for its own refusal.

    Raises:
        ValueError: A set or a mapping: the order of names is that of the labels.
    """
    if isinstance(texts, str):
        return texts
    if isinstance(texts, Set | Mapping):
        raise ValueError(f"{what} is a {type(texts).__name__}; expected a list, whose order is that of the labels")
    return tuple(str(text) if isinstance(text, str) else text for text in texts)


def as_seen(name: str) -> str:
    """A name in one composition, without signs of no width, and with single blanks inside."""
    composed = unicodedata.normalize("NFC", name)
    return " ".join("".join(sign for sign in composed if unicodedata.category(sign) != "Cf").split())


def check_templates(templates: Sequence[str]) -> None:
    """Refuse an empty list, and a template without exactly one ``{}``."""
    if isinstance(templates, str):
        raise ValueError(f"templates is one text, {templates!r}; expected a list of texts")
    if not templates:
        raise ValueError("templates is empty; expected at least one, such as 'a photo of a {}.'")
    for number, template in enumerate(templates, start=1):
        count = template.count(PLACEHOLDER)
        if count != 1:
            raise ValueError(f"template {number}, {template!r}, has {count} placeholders; expected exactly one '{{}}'")


def check_class_names(classes: Sequence[str], *, repeated: Sequence[str] = ()) -> None:
    """Refuse an empty list, a name that is empty, and a name that comes twice but is not in ``repeated``."""
    if isinstance(classes, str):
        raise ValueError(f"classes is one text, {classes!r}; expected a list of class names")
    if not classes:
        raise ValueError("the list of classes is empty; expected at least one class name")
    for position, name in enumerate(classes):
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"class {position} is {name!r}; expected a name that is not empty")
    written: dict[str, str] = {}
    for name in classes:
        same = written.setdefault(as_seen(name), name)
        if same != name:
            raise ValueError(
                f"class names {same!a} and {name!a} look the same, in other code points or blanks; write one of them"
            )
    for name, count in Counter(classes).items():
        if count > 1 and name not in repeated:
            where = [i for i, class_name in enumerate(classes) if class_name == name]
            raise ValueError(
                f"class name {name!r} comes {count} times, at positions {where}; give each class its own name, "
                f"or list it under 'repeated' if the data set has it so"
            )


def built_in_sets() -> list[str]:
    """Names of the template sets that come with the package.

    Example:
        >>> "imagenet-1k" in built_in_sets(), "oxford-flower-102" in built_in_sets()
        (True, True)
    """
    folder = resources.files("knowledge_prompts") / "datasets"
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def load_class_prompts(name_or_path: str | Path) -> ClassPrompts:
    """Read a built-in set by its name, or the user's own JSON file by its path.

    A ``.txt`` file has one class name per line, and gets CLIP's default template; empty lines are left out. A ``.json``
    file is one object with ``templates``, and as needed ``classes``, ``title``, ``source``, ``repeated``,
    ``aliases`` and ``texts`` (see `ClassPrompts`).

    Args:
        name_or_path: One of `built_in_sets()`, or the path of a ``.json`` or ``.txt`` file.

    Raises:
        ValueError: Unknown name (the message lists the known ones), or a field of the file that is wrong (the message
            names file and field).
        FileNotFoundError: There is no such file.

    Example:
        >>> flowers = load_class_prompts("oxford-flower-102")
        >>> len(flowers.classes), flowers.plain("sunflower")
        (102, ('a photo of a sunflower, a type of flower.',))

    Source: Radford et al. 2021 (templates); ELEVATER, section C.5 (one set of names and templates per data set).
        ELEVATER uses the first of CLIP's names of a facial emotion; here the others are ``aliases``, which
        `without_aliases` leaves out.
    """
    if str(name_or_path) in built_in_sets():
        text = (resources.files("knowledge_prompts") / "datasets" / f"{name_or_path}.json").read_text("utf-8")
        return _from_json(text, str(name_or_path))
    path = Path(name_or_path)
    if path.suffix not in (".json", ".txt"):
        raise ValueError(
            f"no template set called {str(name_or_path)!r}; expected a path ending in .json or .txt, or one of "
            f"{', '.join(built_in_sets())}"
        )
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; expected class names in a .txt file, or a .json file")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 (byte {error.start})") from None
    return _from_lines(text, path) if path.suffix == ".txt" else _from_json(text, str(path))


def without_aliases(prompts: ClassPrompts) -> ClassPrompts:
    """The same set with one name per class, as ELEVATER's toolkit has it."""
    return ClassPrompts(
        prompts.name,
        prompts.templates,
        prompts.classes,
        prompts.title,
        prompts.source,
        prompts.repeated,
        {},
        prompts.texts,
    )


def _from_lines(text: str, path: Path) -> ClassPrompts:
    names = [line.strip() for line in text.split("\n") if line.strip()]
    try:
        check_class_names(names)
        return ClassPrompts(path.stem, load_class_prompts("generic").templates, tuple(names))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _from_json(text: str, where: str) -> ClassPrompts:
    try:
        data: Any = parsed_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}, line {error.lineno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise ValueError(f"{where}: nested too deeply") from None
    except ValueError as error:  # a number of more digits than Python reads
        raise ValueError(f"{where}: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{where}: expected one JSON object, found {type(data).__name__}")
    for key in ("templates", "classes", "repeated"):
        if not _is_list_of_texts(data.get(key, [])):
            raise ValueError(f"{where}, field {key!r}: expected a list of texts")
    for key in ("aliases", "texts"):
        value = data.get(key, {})
        if not isinstance(value, dict) or not all(_is_list_of_texts(texts) for texts in value.values()):
            raise ValueError(f"{where}, field {key!r}: expected an object of lists of texts, by class name")
    try:
        return ClassPrompts(
            name=str(data.get("name", Path(where).stem)),
            templates=tuple(data.get("templates", ())),
            classes=tuple(data.get("classes", ())),
            title=str(data.get("title", "")),
            source=str(data.get("source", "")),
            repeated=tuple(data.get("repeated", ())),
            aliases={name: tuple(names) for name, names in data.get("aliases", {}).items()},
            texts={name: tuple(texts) for name, texts in data.get("texts", {}).items()},
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
