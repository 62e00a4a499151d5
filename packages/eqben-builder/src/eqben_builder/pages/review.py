"""The review page: one pair at a time, accepted or rejected by keyboard, the votes kept and exported as JSON."""

from __future__ import annotations

import hashlib
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from eqben_builder.pages.html import asset, embedded, page, relative

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from eqben_builder.formats import PairRow

_SIDE = 512
#: Bytes of embedded pictures beyond which a browser becomes slow; the rest must be files.
EMBED_LIMIT = 150_000_000

_BODY = """<h1>{title}</h1>
<p class="quiet">Accept a pair when each caption fits its own picture, does not fit the other, and the change can be
seen. Votes stay in this browser until you export them.</p>
<p class="notice" id="storage" hidden>This browser keeps nothing for this page: export before you close it.</p>
<p class="notice" id="problem" hidden></p>
<div class="bar">
<div class="row">
<button class="accept" id="accept" aria-pressed="false">Accept</button>
<button class="reject" id="reject" aria-pressed="false">Reject</button>
<button id="previous" aria-label="previous pair">&larr;</button>
<button id="next" aria-label="next pair">&rarr;</button>
<button id="blink">Swap pictures</button>
<span class="quiet" id="where"></span>
</div>
<progress id="progress" max="{count}" value="0" aria-label="pairs decided"></progress>
</div>
<div id="pair">
<div class="pair">
<figure><img id="image0" alt=""><figcaption id="caption0"></figcaption></figure>
<figure><img id="image1" alt=""><figcaption id="caption1"></figcaption></figure>
</div>
<div class="row"><input type="text" id="note" placeholder="What is wrong with it?" aria-label="note"></div>
<p class="quiet" id="name"></p>
</div>
<p id="nothing" hidden>No pair is left in this view.</p>
<div class="row">
<span id="count"></span>
<select id="filter" aria-label="which pairs"><option value="all">all pairs</option>
<option value="undecided">undecided</option><option value="accept">accepted</option>
<option value="reject">rejected</option></select>
<input type="text" id="reviewer" placeholder="Your name" aria-label="your name">
<button id="export">Export votes</button>
<label class="file">Import votes<input type="file" id="import" accept="application/json,.json"></label>
</div>
<p class="quiet keys"><kbd>a</kbd> accept, <kbd>r</kbd> reject, <kbd>u</kbd> undo, <kbd>&larr;</kbd> <kbd>&rarr;</kbd>
or <kbd>k</kbd> <kbd>j</kbd> move, <kbd>space</kbd> swap the pictures to see the change, <kbd>n</kbd> note</p>
<script type="application/json" id="pairs">{data}</script>"""


def write_review_page(
    rows: Iterable[PairRow],
    path: str | os.PathLike[str],
    *,
    title: str = "Review of pairs",
    embed: bool = True,
) -> Path:
    """Write one static HTML file in which somebody accepts or rejects pairs.

    Args:
        rows: Pairs of two pictures.
        path: The file to write.
        title: Of the page.
        embed: Put the pictures into the file, so that it can be sent to somebody; they are shrunk to 512 pixels where
            they are larger. False links to the pictures' own files, relative to the page.

    Returns:
        The path.

    Raises:
        ValueError: No pairs; two pairs of one id; a pair of one picture; more than 150 MB to embed; a picture that is
            no file of its own to link to.

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
    target = Path(path)
    pairs: list[dict[str, object]] = []
    names: set[str] = set()
    size = 0
    for row in rows:
        if row.id in names:
            raise ValueError(f"two pairs have the id {row.id!r}: votes could not tell them apart")
        names.add(row.id)
        if row.image1 is None:
            raise ValueError(f"pair {row.id!r} has one picture: a review is of pairs of two")
        if embed:
            images = [embedded(picture, _SIDE) for picture in row.pictures()]
            size += sum(map(len, images))
            if size > EMBED_LIMIT:
                raise ValueError(
                    f"the pictures of the first {len(pairs) + 1} pairs take more than {EMBED_LIMIT // 1_000_000} MB: "
                    "link to them instead of embedding them, or review fewer pairs"
                )
        else:
            images = [relative(picture, target.parent) for picture in row.pictures()]
        captions = [row.caption0, row.caption1]
        pairs.append({"id": row.id, "subset": row.subset, "aspect": row.aspect, "captions": captions, "images": images})
    if not pairs:
        raise ValueError("there are no pairs to review")
    source = source_of((str(pair["id"]), *pair["captions"]) for pair in pairs)  # type: ignore[misc]  # a list of texts
    data = json.dumps({"source": source, "pairs": pairs}, ensure_ascii=False)
    # Within a script element only these can end it, or open a comment.
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    body = _BODY.replace("{title}", escape(title)).replace("{count}", str(len(pairs))).replace("{data}", data)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(title, body, asset("review.js")), encoding="utf-8")
    return target


def source_of(pairs: Iterable[tuple[str, str, str]]) -> str:
    """A hash over ids and captions: which pairs a vote is about."""
    digest = hashlib.sha256()
    for fields in pairs:
        digest.update(json.dumps(fields).encode())
    return digest.hexdigest()[:32]
