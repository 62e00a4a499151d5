"""Read a suite's questions: what is missing is counted, sets that are not whole are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eqben_builder.suites.files import Files, SuiteRow
from eqben_builder.suites.registry import SUITES
from eqben_builder.suites.suite import Suite, SuiteData
from wary_files.text import number_of


def read_suite(suite: Suite | str, root: str | Path, *, limit: int | None = None) -> SuiteData:
    """Read a suite's original files; images are decoded as `Image.open(...).convert("RGB")` does.

    Args:
        suite: One of `SUITES`, or its id.
        root: The data root; the suite lies in its folder of the suite's name, or in the root itself.
        limit: So many questions, spread over the subsets; None for all.

    Returns:
        A `SuiteData`.

    Raises:
        FileNotFoundError: No such file, with what was looked for; not one image of the suite.
        ValueError: File, row and field that is wrong; an id that two questions share; no questions at all.
        KeyError: An id that no suite has, with the nearest.

    Example:
        >>> import json, tempfile
        >>> from PIL import Image
        >>> from eqben_builder.suites import SUITES
        >>> root = Path(tempfile.mkdtemp())
        >>> for name in ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"):
        ...     row = {"filename": "1.jpg", "caption": "a cup", "negative_caption": "a hat"}
        ...     _ = (root / f"{name}.json").write_text(json.dumps({"0": row}))
        >>> Image.new("RGB", (2, 2)).save(root / "1.jpg")
        >>> len(read_suite(SUITES["sugarcrepe"], root).rows)
        7
    """
    if isinstance(suite, str):
        suite = SUITES[suite]
    files = Files(Path(root), suite.id)
    rows = list(suite.read(files))
    if not rows:
        if files.missing:
            raise FileNotFoundError(
                f"not one image of {suite.title} is there: {len(files.missing)} are missing, such as "
                f"{next(iter(files.missing))} under {', '.join(map(str, files.bases[:2]))}"
            )
        raise ValueError(f"{files.own} holds no question of {suite.title}")
    counts = Counter(row.id for row in rows)
    doubled = [name for name, times in counts.items() if times > 1]
    if doubled:
        raise ValueError(f"{suite.title}: {len(doubled)} ids come twice, such as {doubled[0]!r}")
    notes = [*files.notes, *_counted(suite, rows, files.left_out), *_equal(rows)]
    if files.missing:
        names = ", ".join(list(files.missing)[:5])
        are = number_of(len(files.missing), "image is", "images are")
        notes.insert(
            0,
            f"{files.left_out.total()} of {len(rows) + files.left_out.total()} questions are left out: "
            f"{are} missing ({names}{', …' if len(files.missing) > 5 else ''})",
        )
    chosen, broken = _whole_sets(_spread(rows, limit), files.sets)
    notes += [
        f"{measure}: {count} sets are left out: a question of each is not here" for measure, count in broken.items()
    ]
    return SuiteData(suite, chosen, files.missing, files.left_out, tuple(notes))


def _whole_sets(rows: list[SuiteRow], members: Mapping[tuple[str, str], int]) -> tuple[list[SuiteRow], Counter[str]]:
    """The questions, each in the sets alone that are whole; and how many sets of each measure are not."""
    present = Counter(item for row in rows for item in row.sets.items())
    broken = {item for item, count in present.items() if count < members[item]}
    whole = [
        replace(row, sets={item[0]: item[1] for item in row.sets.items() if item not in broken}) if row.sets else row
        for row in rows
    ]
    return whole, Counter(measure for measure, _ in broken)


def _counted(suite: Suite, rows: Sequence[SuiteRow], left_out: Mapping[str, int]) -> Iterator[str]:
    questions = Counter(row.subset for row in rows)
    for subset, expected in suite.counts.items():
        count = questions[subset] + left_out.get(subset, 0)
        if count != expected:
            yield f"{subset}: {count} questions, the version that is known has {expected}"


def _equal(rows: Sequence[SuiteRow]) -> Iterator[str]:
    """Questions in which a wrong caption is the right one: a tie for every model."""
    unwinnable = Counter(
        row.subset for row in rows if row.shape in ("captions", "paraphrases") and row.captions[0] in row.captions[1:]
    )
    for subset, count in unwinnable.items():
        have = number_of(count, "question has", "questions have")
        yield f"{subset}: {have} the right caption among the wrong ones, and cannot be won"


def _spread(rows: list[SuiteRow], limit: int | None) -> list[SuiteRow]:
    if limit is None or limit >= len(rows):
        return rows
    # The first of each subset, then the second, …: no subset is empty before another is whole.
    turn: Counter[str] = Counter()
    order = []
    for number, row in enumerate(rows):
        order.append((turn[row.subset], number))
        turn[row.subset] += 1
    return [rows[number] for number in sorted(number for _, number in sorted(order)[:limit])]
