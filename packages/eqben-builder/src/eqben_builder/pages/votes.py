"""Votes that the review page exported: read, put together, and applied; what was rejected becomes an errata list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from eqben_builder.formats import WRITERS, detect, keep_pairs, read_any
from eqben_builder.formats.folder import add_file
from eqben_builder.formats.json_files import load_json
from eqben_builder.pages.review import source_of
from eqben_builder.writing import new_folder

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

SCHEMA = "eqben-votes/1"
Rule = Literal["any", "majority"]


class Votes(NamedTuple):
    """One reviewer's file.

    source: Hash of the pairs that were shown.
    reviewer: A name, or "".
    votes: Pair -> "accept" or "reject".
    notes: Pair -> what was noted.
    """

    source: str
    reviewer: str
    votes: dict[str, str]
    notes: dict[str, str]


class Review(NamedTuple):
    """What `apply_votes` did.

    output: The folder with what was kept.
    errata: The list of what was not, in JSON.
    kept, rejected, undecided: Pairs; undecided ones are kept or not as was asked.
    disputed: Pairs that some accepted and some rejected.

    Example:
        >>> Review(Path("kept"), Path("kept/errata.json"), kept=2, rejected=1, undecided=2, disputed=0).errata.name
        'errata.json'
    """

    output: Path
    errata: Path
    kept: int
    rejected: int
    undecided: int
    disputed: int


def read_votes(path: str | os.PathLike[str]) -> Votes:
    """Read what the review page exported.

    Raises:
        ValueError: The file, and the field that is missing or wrong.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "votes.json"
        ...     given = {"schema": SCHEMA, "source": "0f", "votes": {"a": {"vote": "reject", "note": "dark"}}}
        ...     _ = path.write_text(json.dumps(given))
        ...     read_votes(path).votes
        {'a': 'reject'}
    """
    source = Path(path)
    try:
        given = load_json(source)
    except ValueError as error:
        raise ValueError(f"{source} is no JSON: {error}") from error
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        found = given.get("schema") if isinstance(given, dict) else given
        raise ValueError(f"{source}: field 'schema' is {found!r}, expected {SCHEMA!r}")
    if not isinstance(given.get("source"), str) or not isinstance(given.get("votes"), dict):
        raise ValueError(f"{source}: fields 'source' and 'votes' should be a text and an object")
    votes, notes = {}, {}
    for name, vote in given["votes"].items():
        if not isinstance(vote, dict) or vote.get("vote") not in (None, "accept", "reject"):
            raise ValueError(f"{source}: the vote on {name!r} should be 'accept' or 'reject', found {vote!r}")
        if vote.get("vote"):
            votes[name] = vote["vote"]
        if vote.get("note"):
            notes[name] = str(vote["note"])
    return Votes(given["source"], str(given.get("reviewer") or ""), votes, notes)


def apply_votes(
    source: str | os.PathLike[str],
    votes: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    form: str = "folder",
    rule: Rule = "any",
    undecided: Literal["keep", "drop"] = "keep",
    partial: bool = False,
    images: str | os.PathLike[str] | None = None,
) -> Review:
    """Leave out what reviewers rejected, and say what it was.

    Args:
        source: What was reviewed, in any form that `read_any` reads.
        votes: Files of one or several reviewers.
        output: A folder that does not exist yet.
        form: Of `eqben_builder.formats.WRITERS`. "folder" copies a build's own files, masks and manifest included.
        rule: "any": one rejection is enough. "majority": more rejections than acceptances.
        undecided: What becomes of pairs that nobody voted on.
        partial: The votes are on a part of the source, as a review of a sample gives.
        images: The folder that picture paths are relative to, where it is not the source's own.

    Returns:
        A `Review`. `errata.json` lies in the output folder: id, captions, reviewers and notes of each rejected pair.

    Raises:
        ValueError: Votes on other pairs than those of the source; no votes; nothing left to keep.
        FileExistsError: The output exists.

    Example:
        >>> import tempfile
        >>> from eqben_builder.building import build
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = build(MicroBuilder(aspects=["count"], size=32), f"{folder}/pairs", pairs=3)
        ...     shown = source_of((row.id, row.caption0, row.caption1) for row in read_any(f"{folder}/pairs"))
        ...     given = {"schema": SCHEMA, "source": shown, "votes": {"micro-000001": {"vote": "reject"}}}
        ...     _ = Path(folder, "votes.json").write_text(json.dumps(given))
        ...     review = apply_votes(f"{folder}/pairs", [f"{folder}/votes.json"], f"{folder}/kept")
        ...     [row.id for row in read_any(review.output)]
        ['micro-000000', 'micro-000002']
    """
    if rule not in ("any", "majority") or undecided not in ("keep", "drop") or form not in WRITERS:
        raise ValueError(
            f"rule = {rule!r}, undecided = {undecided!r}, form = {form!r}: expected any or majority, keep or drop, and "
            f"one of {', '.join(WRITERS)}"
        )
    if not votes:
        raise ValueError("no files of votes were given")
    target = Path(output)
    if target.exists():  # before the work; `new_folder` looks again
        raise FileExistsError(f"{target} exists already: give a new folder")
    known: dict[str, tuple[str, str]] = {}
    for row in read_any(source, images=images):
        known[row.id] = (row.caption0, row.caption1)
    shown = source_of((name, *captions) for name, captions in known.items())
    given = [(Path(path), read_votes(path)) for path in votes]
    for path, one in given:
        strangers = sorted((set(one.votes) | set(one.notes)) - set(known))
        if strangers:
            raise ValueError(f"{path} votes on {strangers[0]!r}, which is no pair of {source}")
        if one.source != shown and not partial:
            raise ValueError(f"{path} was cast on other pairs than those of {source}, or on a part of them")
    rejected, open_, disputed = set(), set(), 0
    for name in known:
        cast = [one.votes[name] for _, one in given if name in one.votes]
        against = cast.count("reject")
        disputed += 0 < against < len(cast)
        if not cast:
            open_.add(name)
        elif (against if rule == "any" else max(0, 2 * against - len(cast))) > 0:
            rejected.add(name)
    kept = set(known) - rejected - (open_ if undecided == "drop" else set())
    if not kept:
        raise ValueError(f"nothing is left of the {len(known)} pairs of {source}: {len(rejected)} are rejected")
    errata = [_erratum(name, known[name], given) for name in known if name in rejected]
    review = {"reviewers": len(given), "rule": rule, "undecided": undecided, "rejected": len(rejected)}
    content = json.dumps({"schema": "eqben-errata/1", **review, "pairs": errata}, indent=1, ensure_ascii=False) + "\n"
    found = detect(source)
    with new_folder(target) as place:
        if form == found.form == "folder":
            keep_pairs(found.paths[0].parent, place, kept, review)
        else:
            WRITERS[form]((row for row in read_any(source, images=images) if row.id in kept), place)
        if form == "folder":
            add_file(place, "errata.json", content.encode())
        else:
            (place / "errata.json").write_text(content, encoding="utf-8")
    return Review(target, target / "errata.json", len(kept), len(rejected), len(open_), disputed)


def _erratum(name: str, captions: tuple[str, str], given: Sequence[tuple[Path, Votes]]) -> dict[str, Any]:
    cast = [
        {"reviewer": one.reviewer, "vote": one.votes.get(name), "note": one.notes.get(name, "")}
        for _, one in given
        if name in one.votes or name in one.notes
    ]
    return {"id": name, "caption0": captions[0], "caption1": captions[1], "votes": cast}
