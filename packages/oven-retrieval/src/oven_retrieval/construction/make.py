"""From labelled images to a benchmark in OVEN's own files, with a record of everything that was left out.

One file of more than 400 lines: each step counts what it leaves out in the same record.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from oven_retrieval.construction.linking import Candidates, LabelLink, link_labels
from oven_retrieval.construction.screening import LabelledImage, screen
from oven_retrieval.construction.splits import SPLITS, Example, SplitRules, split_examples
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.names import NameLinker
from oven_retrieval.progress import Say
from oven_retrieval.tokens import fold
from wary_files.durable import locks, naming, own_file, unfinished
from wary_files.json_files import JsonFileError, read_json
from wary_files.text import json_text

PARTS = ("entity", "query")
"""OVEN's two: questions made up for recognition labels, and questions that the data brought."""


_SPECIES = {
    "plant": ("plant", "plantae", "flora", "flower", "tree"),
    "bird": ("bird", "aves"),
    "mammal": ("mammal", "mammalia"),
    "reptile": ("reptile", "reptilia"),
    "amphibian": ("amphibian", "amphibia"),
    "insect": ("insect", "insecta"),
    "spider or its relative": ("arachnid", "arachnida"),
    "fish": ("fish", "actinopterygii"),
    "mollusc": ("mollusc", "mollusk", "mollusca"),
    "fungus": ("fungus", "fungi"),
    "animal": ("animal", "animalia", "fauna"),
}
_OTHERS = {
    "what is the model of this aircraft?": ("aircraft", "airplane", "airliner"),
    "what is the make and model of this car?": ("car", "automobile"),
    "what is the type of this vehicle?": ("vehicle",),
    "what is the name of this dish?": ("food", "dish"),
    "what sport is shown in this image?": ("sport", "sports"),
    "what is the name of this building?": ("building", "bridge"),
    "what is the name of this landmark?": ("landmark", "monument"),
    "what kind of place is shown in this image?": ("scene", "place"),
    "what is the name of this location?": ("location", "park", "lake", "river", "mountain"),
    "who is the person in this image?": ("person", "human"),
    "what activity is shown in this image?": ("act", "activity"),
    "what event is shown in this image?": ("event",),
    "what is the object in this image?": ("object", "item", "artifact", "others"),
}
TEMPLATES: dict[str, str] = {
    **{name: f"what is the species of the {kind} in this image?" for kind, names in _SPECIES.items() for name in names},
    **{name: question for question, names in _OTHERS.items() for name in names},
}
"""Folded super-category -> question."""
FALLBACK = "what is the {category} in this image?"
WITHOUT_CATEGORY = "what is the main object in this image?"


OTHERS = "*"
"""The super-category of a file of templates that stands for all that it does not name."""


def read_templates(path: str | Path) -> dict[str, str]:
    """Read questions by super-category from a JSON object, over ours; `{category}` in one is the category's name.

    Raises:
        ValueError: no such object, a question that is blank, or one for all others ("*") without {category}.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "templates.json"
        >>> _ = file.write_text('{"Plantae": "which plant is this?", "*": "which {category} is this?"}')
        >>> templates = read_templates(file)
        >>> [make_question(category, templates) for category in ("plantae", "Bicycle", "bird")][:2]
        ['which plant is this?', 'which bicycle is this?']
    """
    try:
        content = read_json(path)
    except JsonFileError as error:
        raise ValueError(f"{path}: expected a JSON object of super-category and question: {error.reason}") from None
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path}: expected a JSON object of super-category and question, got {content!r:.60}")
    for category, question in content.items():
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"{path}: {category!r}: expected a question, got {question!r:.60}")
    if "{category}" not in content.get(OTHERS, "{category}"):
        raise ValueError(f"{path}: {OTHERS!r}: expected {{category}} in the question, got {content[OTHERS]!r:.60}")
    return TEMPLATES | {fold(category): question for category, question in content.items()}


def make_question(category: str, templates: Mapping[str, str] = TEMPLATES) -> str:
    """The question that leads to a label of this super-category, by folded category in `templates`.

    Source: OVEN's appendix 10.1, whose one printed template is the first of the example.
    """
    folded = fold(category)
    if not folded:
        return WITHOUT_CATEGORY
    return templates.get(folded, templates.get(OTHERS, FALLBACK)).replace("{category}", folded)


class _Item(NamedTuple):
    image: LabelledImage
    row: int
    question: str

    @property
    def part(self) -> str:
        return PARTS[bool(self.image.question)]


class _Drops:
    """What was left out, and why."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.counts: Counter[str] = Counter()

    def add(self, item: LabelledImage, reason: str) -> None:
        """Note one labelled image."""
        self.counts[reason] += 1
        record = {"line": item.line, "image_id": item.image_id, "label": item.label, "reason": reason}
        self._file.write(json_text(record) + "\n")


@locks("output")
def make_benchmark(
    labels: Iterable[LabelledImage],
    linker: NameLinker,
    output: str | Path,
    *,
    rules: SplitRules | None = None,
    blocked: Collection[str] = (),
    blocked_categories: Collection[str] = (),
    templates: Mapping[str, str] = TEMPLATES,
    second: Candidates | None = None,
    least_examples: int = 1,
    say: Say | None = None,
) -> dict[str, Any]:
    """Screen, link, ask, split and write.

    In order, each with its reason in `dropped.jsonl`: blocked labels, questions that want no entity, labels that are
    none; labels that link to no entity; blocked super-categories, of the label or the entity; repeated examples;
    questions about one image with several answers; entities with too few examples; what a split's rules leave out.

    Args:
        labels: what `read_labels` gives.
        linker: of the knowledge base whose entities are the answers.
        output: new folder; `{entity,query}_{train,val,test}.jsonl` in OVEN's format, `links.jsonl` what became of
            each label, `dropped.jsonl`, and `report.json`.
        rules: how to split; `SplitRules()` by default.
        blocked: labels that shall not be in it, in lower case (see `fold`).
        blocked_categories: super-categories that shall not be in it.
        templates: folded super-category -> question, as `read_templates` gives them.
        second: the second stage of linking by a model, as in `link_labels`.
        least_examples: entities with fewer are left out (OVEN asks 50 of one of its sources).
        say: called with one line per step.

    Returns:
        The report: what was dropped and why, links by step, examples and entities of each split; `sources`: of each, by
        entity and query split, how many labels it came with and how many entities are left (the paper's figure 7);
        `super_categories`: entities of each group (figures 3 and 8).

    Raises:
        FileExistsError: the folder is there.
        ValueError: an option out of its range, or no labelled image.

    Numerics:
        The same labels give the same files, whatever their order, except for numbers in the files that count lines.
        Memory: all labelled images. The folder appears when all is written.

    Example:
        >>> import tempfile
        >>> from oven_retrieval import KnowledgeBase, build_linker
        >>> kb, folder = KnowledgeBase.from_names(["Wood duck", "Goose"]), Path(tempfile.mkdtemp())
        >>> labels = [LabelledImage(f"i{n}", name) for name in ("wood duck", "goose", "42") for n in range(20)]
        >>> report = make_benchmark(labels, build_linker(kb), folder / "made", rules=SplitRules(unseen=0.5))
        >>> sorted(file.name for file in (folder / "made").iterdir())[:3]
        ['dropped.jsonl', 'links.jsonl', 'report.json']

    Source: OVEN section 3 and appendix 10.1.
    """
    output = Path(output)
    if output.exists():
        raise FileExistsError(f"{output} exists; expected a new folder")
    if least_examples < 1:
        raise ValueError(f"least_examples: expected at least 1, got {least_examples!r}")
    partial = own_file(unfinished(output))
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with naming(partial):
            with (partial / "dropped.jsonl").open("w", encoding="utf-8") as file:
                drops = _Drops(file)
                populations: Populations = {}
                screened, read = _screened(_counted(labels, populations), blocked, drops)
                if not read:
                    raise ValueError("labels: expected labelled images, there are none")
                (say or _silent)(f"{read:,} labelled images, {len(screened):,} after screening")
                linked, links = _linked(screened, linker, second, drops)
                linked = _unblocked(linked, linker, {fold(name) for name in blocked_categories}, drops)
                items = _questions(linked, linker, templates, least_examples, drops)
                (say or _silent)(
                    f"{len(items):,} examples of {len({item.row for item in items}):,} entities are linked"
                )
                counts, written = _write_splits(items, linker, partial, rules or SplitRules(), drops)
            _write_links(partial, links, linker)
            report: dict[str, Any] = {
                "knowledge_base": linker.kb.hash,
                "labelled_images": read,
                "dropped": dict(sorted(drops.counts.items())),
                "labels": len(links),
                "links": dict(Counter(link.problem or link.step for link in links.values()).most_common()),
                "ambiguous_labels": sum(link.rivals > 0 for link in links.values()),
                "splits": counts,
                "sources": _sources(populations, written),
                "super_categories": super_categories(written, linker.kb),
                "rules": asdict(rules or SplitRules()),
            }
            (partial / "report.json").write_text(json_text(report, indent=1) + "\n", encoding="utf-8")
            partial.rename(output)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return report


def _silent(line: str) -> None:
    """Say nothing."""


Populations = dict[str, dict[str, set[str]]]
"""Source -> part -> its labels as they came."""


def _counted(labels: Iterable[LabelledImage], populations: Populations) -> Iterator[LabelledImage]:
    """The same images, whose labels are noted by source and part."""
    for item in labels:
        by_part = populations.setdefault(item.source, {part: set() for part in PARTS})
        by_part[PARTS[bool(item.question)]].add(item.label)
        yield item


def _sources(populations: Populations, items: list[_Item]) -> dict[str, dict[str, dict[str, int]]]:
    """Labels that each source came with, and entities that are left of it, by part."""
    entities: dict[tuple[str, str], set[int]] = {}
    for item in items:
        entities.setdefault((item.image.source, item.part), set()).add(item.row)
    return {
        source: {
            part: {"labels": len(names), "entities": len(entities.get((source, part), ()))}
            for part, names in by_part.items()
            if names
        }
        for source, by_part in sorted(populations.items())
    }


_MERGED = dict.fromkeys(("park", "lake", "river", "mountain"), "location") | {"bridge": "building"}
_GENERAL = {"", "object", "item", "others"}
LEAST_GROUP = 5
"""Super-categories of fewer entities are among the others."""


def super_categories(items: Iterable[_Item], kb: KnowledgeBase) -> dict[str, int]:
    """Entities of each super-category, the largest first; general and small ones together as "others".

    Source: OVEN's figure 8 and its appendix 10.1, which merge parks, lakes, rivers and mountains into locations, and
    bridges into buildings.
    """
    group_of: dict[int, str] = {}
    for item in items:
        category = fold(item.image.category or kb.categories[kb.category_codes[item.row]])
        group_of.setdefault(item.row, _MERGED.get(category, category))
    sizes = Counter(group_of.values())
    groups = Counter(
        "others" if group in _GENERAL or sizes[group] < LEAST_GROUP else group for group in group_of.values()
    )
    return dict(groups.most_common())


def _unblocked(
    linked: list[tuple[LabelledImage, int]], linker: NameLinker, categories: Collection[str], drops: _Drops
) -> list[tuple[LabelledImage, int]]:
    """Examples whose super-category, and whose entity's, is not blocked."""
    if not categories:
        return linked
    kb, passed = linker.kb, []
    for item, row in linked:
        own = {fold(item.category), fold(kb.categories[kb.category_codes[row]])}
        if own & set(categories):
            drops.add(item, "blocked category")
        else:
            passed.append((item, row))
    return passed


def _screened(
    labels: Iterable[LabelledImage], blocked: Collection[str], drops: _Drops
) -> tuple[list[LabelledImage], int]:
    passed, read = [], 0
    for item in labels:
        read += 1
        problem = screen(item, blocked)
        if problem is None:
            passed.append(item)
        else:
            drops.add(item, problem)
    return passed, read


Links = dict[tuple[str, str], LabelLink]


def _linked(
    screened: list[LabelledImage], linker: NameLinker, second: Candidates | None, drops: _Drops
) -> tuple[list[tuple[LabelledImage, int]], Links]:
    labels = list(dict.fromkeys((item.label, item.category) for item in screened))
    links = dict(zip(labels, link_labels(linker, labels, second=second), strict=True))
    linked = []
    for item in screened:
        link = links[item.label, item.category]
        if link.problem is not None:
            drops.add(item, link.problem)
        else:
            linked.append((item, link.row))
    return linked, links


def _questions(
    linked: list[tuple[LabelledImage, int]],
    linker: NameLinker,
    templates: Mapping[str, str],
    least_examples: int,
    drops: _Drops,
) -> list[_Item]:
    kb = linker.kb
    items: dict[tuple[str, str, int], _Item] = {}
    answers: dict[tuple[str, str], set[int]] = {}
    for image, row in linked:
        category = kb.categories[kb.category_codes[row]]
        question = " ".join(image.question.split()) or make_question(image.category or category, templates)
        if (image.image_id, question, row) in items:
            drops.add(image, "repeated example")
            continue
        items[image.image_id, question, row] = _Item(image, row, question)
        answers.setdefault((image.image_id, question), set()).add(row)
    clear = []
    for item in items.values():
        if len(answers[item.image.image_id, item.question]) > 1:
            drops.add(item.image, "several answers to one question")
        else:
            clear.append(item)
    examples = Counter(item.row for item in clear)
    frequent = []
    for item in clear:
        if examples[item.row] < least_examples:
            drops.add(item.image, f"entity with fewer than {least_examples} examples")
        else:
            frequent.append(item)
    return frequent


def _write_splits(
    items: list[_Item], linker: NameLinker, folder: Path, rules: SplitRules, drops: _Drops
) -> tuple[dict[str, dict[str, int]], list[_Item]]:
    """Write each split's file; examples and entities of each, and the examples that are in one."""
    kb = linker.kb
    examples = [
        Example(
            item.image.image_id,
            kb.ids[item.row],
            f"{item.image.source}\x00{item.image.category or kb.categories[kb.category_codes[item.row]]}",
        )
        for item in items
    ]
    splits = split_examples(examples, rules)
    order = sorted(range(len(items)), key=lambda i: (examples[i].image_id, items[i].question, examples[i].entity_id))
    files: dict[str, list[str]] = {f"{part}_{split}": [] for part in PARTS for split in SPLITS}
    counts: dict[str, dict[str, int]] = {}
    entities: dict[str, set[str]] = {}
    for i in order:
        item, split = items[i], splits[i]
        if not split:
            drops.add(item.image, "image of another split")
            continue
        name = f"{item.part}_{split.partition('_')[0]}"
        record = {
            "data_id": f"{name}_{len(files[name]):08d}",
            "image_id": examples[i].image_id,
            "question": item.question,
            "entity_id": examples[i].entity_id,
            "entity_text": kb.names[item.row],
            "data_split": "train_seen" if split == "train" else split,
        }
        files[name].append(json_text(record))
        key = f"{item.part}_{record['data_split']}"
        counts.setdefault(key, {"examples": 0, "entities": 0})["examples"] += 1
        entities.setdefault(key, set()).add(examples[i].entity_id)
    for key, members in entities.items():
        counts[key]["entities"] = len(members)
    for name, lines in files.items():
        if lines:
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return dict(sorted(counts.items())), [item for item, split in zip(items, splits, strict=True) if split]


def _write_links(folder: Path, links: Links, linker: NameLinker) -> None:
    with (folder / "links.jsonl").open("w", encoding="utf-8") as file:
        for (label, category), link in links.items():
            entity = None if link.row < 0 else linker.kb.ids[link.row]
            name = None if link.row < 0 else linker.kb.names[link.row]
            record: dict[str, Any] = {"label": label, "category": category, "entity_id": entity, "entity_text": name}
            record |= {"step": link.step, "rivals": link.rivals, "problem": link.problem}
            file.write(json_text(record) + "\n")
