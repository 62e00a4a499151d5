"""ELEVATER's twenty sets of image classification, and what the texts that are gathered about them may be used for."""

from __future__ import annotations

from pathlib import Path

from knowledge_prompts.sources.json_records import KnowledgeFileError, write_text

ICINW = "icinw"
"""How a command names all twenty."""
ELEVATER_SETS = (
    "caltech-101", "cifar-10", "cifar-100", "country211", "dtd", "eurosat_clip", "fer-2013",
    "fgvc-aircraft-2013b-variants102", "food-101", "gtsrb", "hateful-memes", "kitti-distance", "mnist",
    "oxford-flower-102", "oxford-iiit-pets", "patch-camelyon", "rendered-sst2", "resisc45_clip", "stanford-cars",
    "voc-2007-classification",
)  # fmt: skip
"""Names of the built-in sets, which are those of ELEVATER's files of knowledge."""
LICENCES = {
    "wordnet": "WordNet: free for any use, with the copyright notice of Princeton University (WordNet Licence).",
    "wiktionary": "Wiktionary: CC BY-SA 4.0 and GFDL: name the source, share what you change under the same terms.",
    "gpt3": "Answers of a language model: as the terms of its endpoint say.",
}
"""By source, under which terms its texts may be passed on."""


def names_of(classes: str) -> tuple[str, ...]:
    """Return the sets that a command's argument names: all twenty, or itself.

    Example:
        >>> len(names_of("icinw")), names_of("my-birds.txt")
        (20, ('my-birds.txt',))
    """
    return ELEVATER_SETS if classes == ICINW else (classes,)


def write_licences(folder: Path, sources: tuple[str, ...]) -> Path:
    """Write beside files of knowledge where their texts come from, and under which terms.

    Lines that are there already stay: texts of an earlier build are still in the files, and a user may have added some.

    Raises:
        KnowledgeFileError: what is there is no text.

    Example:
        >>> import tempfile
        >>> path = write_licences(Path(tempfile.mkdtemp()), ("wordnet",))
        >>> path.name, "Princeton" in path.read_text()
        ('LICENCES.txt', True)
    """
    path = folder / "LICENCES.txt"
    try:
        stated = path.read_text(encoding="utf-8").removesuffix("\n").split("\n") if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise KnowledgeFileError(f"{path} cannot be read as text: {error}; move it away") from None
    lines = [*stated, *(LICENCES[source] for source in sources if LICENCES[source] not in stated)]
    write_text(path, "".join(f"{line}\n" for line in lines))
    return path
