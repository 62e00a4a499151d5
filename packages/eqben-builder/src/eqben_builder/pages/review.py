"""A review by keyboard: the page on which pairs are accepted or rejected, and the votes that it exports, applied."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from eqben_builder.building.folder import read_manifest
from eqben_builder.formats import WRITERS, read_any
from eqben_builder.formats.convert import detect
from eqben_builder.formats.folder import add_file
from eqben_builder.pages.rendering import WHITE, embedded, write_page
from eqben_builder.writing import new_folder
from wary_files.json_files import read_json
from wary_files.text import printable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from eqben_builder.formats import PairRow

_SIDE = 512
#: Bytes of images beyond which a browser becomes slow.
EMBED_LIMIT = 150_000_000
SCHEMA = "eqben-votes/1"
Rule = Literal["any", "majority"]


def write_review_page(rows: Iterable[PairRow], path: str | os.PathLike[str], *, title: str = "Review of pairs") -> Path:
    """Write one static HTML file in which somebody accepts or rejects pairs.

    Args:
        rows: Pairs of two images.
        path: The file to write.
        title: Of the page.

    Returns:
        The path. The images are within the file, shrunk to 512 pixels where they are larger.

    Raises:
        ValueError: No pairs; two pairs of one id; a pair of one image; images of more than 150 MB.

    Numerics:
        The page knows its pairs by a hash over their ids and captions, so that votes are kept for these pairs only.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from eqben_builder.formats import PairRow, Picture, encode_png
        >>> white, black = (Picture(content=encode_png(np.full((2, 2, 3), v, np.uint8))) for v in (255, 0))
        >>> row = PairRow("a", "micro", "", white, black, "a white square", "a black square")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     "a black square" in write_review_page([row], f"{folder}/review.html").read_text()
        True
    """
    pairs: list[dict[str, object]] = []
    names: set[str] = set()
    hashed: list[tuple[str, str, str]] = []
    size = 0
    for row in rows:
        if row.id in names:
            raise ValueError(f"two pairs have the id {row.id!r}: votes could not tell them apart")
        names.add(row.id)
        if row.image1 is None:
            raise ValueError(f"pair {row.id!r} has one image: a review is of pairs of two")
        images = [embedded(picture, _SIDE) for picture in row.pictures()]
        size += sum(map(len, images))
        if size > EMBED_LIMIT:
            raise ValueError(
                f"the images of the first {len(pairs) + 1} pairs take more than {EMBED_LIMIT // 1_000_000} MB: "
                "review fewer pairs"
            )
        captions = [printable(text, WHITE) for text in (row.caption0, row.caption1)]
        name = printable(", ".join(filter(None, (row.id, row.subset, row.aspect))))
        pairs.append({"id": row.id, "name": name, "captions": captions, "images": images})
        hashed.append((row.id, row.caption0, row.caption1))
    if not pairs:
        raise ValueError("there are no pairs to review")
    return write_page(path, "review.html", title=title, source=source_of(hashed), pairs=pairs)


def source_of(pairs: Iterable[tuple[str, str, str]]) -> str:
    """A hash over ids and captions: which pairs a vote is about."""
    digest = hashlib.sha256()
    for fields in pairs:
        digest.update(json.dumps(fields).encode())
    return digest.hexdigest()[:32]


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
    kept, rejected, undecided: Pairs; undecided ones are kept.
    disputed: Pairs that some accepted and some rejected.
    """

    output: Path
    errata: Path
    kept: int
    rejected: int
    undecided: int
    disputed: int


def read_votes(path: str | os.PathLike[str]) -> Votes:
    """Read what the review page exported; a `ValueError` names the file, and the field that is missing or wrong."""
    source = Path(path)
    content = read_json(source)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        schema = content.get("schema") if isinstance(content, dict) else content
        raise ValueError(f"{source}: field 'schema' is {schema!r}, expected {SCHEMA!r}")
    if not isinstance(content.get("source"), str) or not isinstance(content.get("votes"), dict):
        raise ValueError(f"{source}: fields 'source' and 'votes' should be a text and an object")
    votes, notes = {}, {}
    for name, vote in content["votes"].items():
        if not isinstance(vote, dict) or vote.get("vote") not in (None, "accept", "reject"):
            raise ValueError(f"{source}: the vote on {name!r} should be 'accept' or 'reject', found {vote!r}")
        if vote.get("vote"):
            votes[name] = vote["vote"]
        if vote.get("note"):
            notes[name] = str(vote["note"])
    return Votes(content["source"], str(content.get("reviewer") or ""), votes, notes)


def apply_votes(
    source: str | os.PathLike[str],
    votes: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    form: str = "folder",
    rule: Rule = "any",
    partial: bool = False,
    images: str | os.PathLike[str] | None = None,
) -> Review:
    """Leave out what reviewers rejected, and say what it was.

    Args:
        source: What was reviewed, in any form that `read_any` reads.
        votes: Files of one or several reviewers.
        output: A folder that does not exist yet.
        form: Of `eqben_builder.formats.WRITERS`. "folder" keeps what a build's manifest says of it.
        rule: "any": one rejection is enough. "majority": more rejections than acceptances.
        partial: The votes are on a part of the source, as a review of a sample gives.
        images: The folder that image paths are relative to, where it is not the source's own.

    Returns:
        A `Review`; pairs that nobody voted on are kept. `errata.json` lies in the output folder: id, captions,
        reviewers and notes of each rejected pair.

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
        ...     votes = {"schema": SCHEMA, "source": shown, "votes": {"micro-000001": {"vote": "reject"}}}
        ...     _ = Path(folder, "votes.json").write_text(json.dumps(votes))
        ...     review = apply_votes(f"{folder}/pairs", [f"{folder}/votes.json"], f"{folder}/kept")
        ...     [row.id for row in read_any(review.output)]
        ['micro-000000', 'micro-000002']
    """
    if rule not in ("any", "majority") or form not in WRITERS:
        raise ValueError(f"rule = {rule!r}, form = {form!r}: expected any or majority, and one of {', '.join(WRITERS)}")
    if not votes:
        raise ValueError("no files of votes were given")
    target = Path(output)
    if target.exists():  # before the work; `new_folder` looks again
        raise FileExistsError(f"{target} exists already: give a new folder")
    pairs: dict[str, tuple[str, str]] = {}
    for row in read_any(source, images=images):
        pairs[row.id] = (row.caption0, row.caption1)
    shown = source_of((name, *captions) for name, captions in pairs.items())
    ballots = [(Path(path), read_votes(path)) for path in votes]
    for path, ballot in ballots:
        strangers = sorted((set(ballot.votes) | set(ballot.notes)) - set(pairs))
        if strangers:
            raise ValueError(f"{path} votes on {strangers[0]!r}, which is no pair of {source}")
        if ballot.source != shown and not partial:
            raise ValueError(f"{path} was cast on other pairs than those of {source}, or on a part of them")
    rejected, undecided, disputed = set(), 0, 0
    for name in pairs:
        cast = [ballot.votes[name] for _, ballot in ballots if name in ballot.votes]
        against = cast.count("reject")
        disputed += 0 < against < len(cast)
        undecided += not cast
        if (against if rule == "any" else max(0, 2 * against - len(cast))) > 0:
            rejected.add(name)
    accepted = set(pairs) - rejected
    if not accepted:
        raise ValueError(f"nothing is left of the {len(pairs)} pairs of {source}: {len(rejected)} are rejected")
    errata = [_erratum(name, pairs[name], ballots) for name in pairs if name in rejected]
    review = {"reviewers": len(ballots), "rule": rule, "rejected": len(rejected)}
    content = json.dumps({"schema": "eqben-errata/1", **review, "pairs": errata}, indent=1, ensure_ascii=False) + "\n"
    original = detect(source)
    with new_folder(target) as folder:
        WRITERS[form]((row for row in read_any(source, images=images) if row.id in accepted), folder)
        if form == "folder":
            built = read_manifest(original.paths[0].parent) or {} if original.form == "folder" else {}
            names = ("subset", "duplicate_bits", "parameters", "versions")
            inherited = {name: built[name] for name in names if name in built}
            about = inherited | {"review": {"of": built.get("hash"), **review}}
            add_file(folder, "errata.json", content.encode(), about)
        else:
            (folder / "errata.json").write_text(content, encoding="utf-8")
    return Review(target, target / "errata.json", len(accepted), len(rejected), undecided, disputed)


def _erratum(name: str, captions: tuple[str, str], ballots: Sequence[tuple[Path, Votes]]) -> dict[str, Any]:
    cast = [
        {"reviewer": ballot.reviewer, "vote": ballot.votes.get(name), "note": ballot.notes.get(name, "")}
        for _, ballot in ballots
        if name in ballot.votes or name in ballot.notes
    ]
    return {"id": name, "caption0": captions[0], "caption1": captions[1], "votes": cast}
