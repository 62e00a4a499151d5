"""Names of living things as encoders of biology know them: scientific, common, and the whole path."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from knowledge_prompts.prompts.class_prompts import ClassPrompts

TaxonForm = Literal["scientific", "common", "taxonomic", "scientific with common", "taxonomic with common"]
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")


@dataclass(frozen=True)
class Taxon:
    """A species, or a rank above it.

    Args:
        ranks: Names from the kingdom down, by rank; ranks may be missing. The species is its epithet, or both words.
        common: The common name; empty where it has none.

    Raises:
        ValueError: No rank at all, or a rank that is not one of `RANKS`.

    Example:
        >>> taxon = Taxon({"family": "Strigidae", "genus": "Bubo", "species": "scandiacus"}, "snowy owl")
        >>> taxon.name("scientific"), taxon.name("taxonomic with common")
        ('Bubo scandiacus', 'Strigidae Bubo scandiacus with common name snowy owl')
    """

    ranks: Mapping[str, str]
    common: str = ""

    def __post_init__(self) -> None:
        """Refuse ranks that nobody knows."""
        unknown = [rank for rank in self.ranks if rank not in RANKS]
        if unknown or not any(self.ranks.values()):
            raise ValueError(f"ranks {dict(self.ranks)!r:.120}; expected some of {', '.join(RANKS)}")

    def name(self, form: TaxonForm) -> str:
        """Return the name in one form; a taxon without a common name has its scientific one in its place.

        Raises:
            ValueError: Another form.
        """
        path = self._path()
        scientific = " ".join(path[-2:]) if self.ranks.get("species") and self.ranks.get("genus") else path[-1]
        names = {
            "scientific": scientific,
            "common": self.common or scientific,
            "taxonomic": " ".join(path),
            "scientific with common": _with(scientific, self.common),
            "taxonomic with common": _with(" ".join(path), self.common),
        }
        if form not in names:
            raise ValueError(f"form {form!r}; expected one of {', '.join(get_args(TaxonForm))}")
        return names[form]

    def _path(self) -> list[str]:
        """Names from the top down, the species as its epithet."""
        path = [self.ranks[rank] for rank in RANKS if self.ranks.get(rank)]
        genus, species = self.ranks.get("genus", ""), self.ranks.get("species", "")
        if genus and species.startswith(f"{genus} "):
            path[-1] = species.removeprefix(f"{genus} ")
        return path


def _with(name: str, common: str) -> str:
    return f"{name} with common name {common}" if common else name


def read_taxa(path: str | Path) -> list[Taxon]:
    r"""Read species from a CSV file with a column for each rank, and `common` (or `common_name`).

    Raises:
        ValueError: No column of a rank, a column twice, a row without any rank, or a file that is not UTF-8; names
            file and line.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "owls.csv"
        >>> _ = file.write_text("genus,species,common\nBubo,Bubo bubo,Eurasian eagle-owl\n", encoding="utf-8")
        >>> read_taxa(file)[0].name("scientific with common")
        'Bubo bubo with common name Eurasian eagle-owl'
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    taxa = []
    try:
        columns = {name: name.strip().lower() for name in rows.fieldnames or ()}
        if len(set(columns.values())) < len(rows.fieldnames or ()):
            raise ValueError(f"a column comes twice among {', '.join(rows.fieldnames or ())}")
        if not set(columns.values()) & set(RANKS):
            raise ValueError(f"expected columns of {', '.join(RANKS)}; there are {', '.join(columns)}")
        for row in rows:
            if None in row:
                raise ValueError("more fields than the header has")
            if torn := [value for value in row.values() if value and "\n" in value.strip()]:
                raise ValueError(f"a quote opens in this row and holds the next, {torn[0][:60]!r}; close or double it")
            cells = {columns[name]: (value or "").strip() for name, value in row.items()}
            common = cells.get("common") or cells.get("common_name") or ""
            taxa.append(Taxon({rank: cells[rank] for rank in RANKS if cells.get(rank)}, common))
    except csv.Error as error:  # of the row that begins after the last one
        raise ValueError(f"{path}, line {rows.line_num + 1}: {error}; is a quote opened and not closed?") from None
    except ValueError as error:
        raise ValueError(f"{path}, line {rows.line_num}: {error}") from None
    return taxa


def taxon_prompts(
    taxa: Sequence[Taxon],
    form: TaxonForm = "taxonomic with common",
    templates: Sequence[str] = ("a photo of {}.",),
    *,
    data_set: str = "taxa",
) -> ClassPrompts:
    """Return classes whose names are taxa in one form; call it once for each form to average their embeddings.

    Raises:
        ValueError: Two taxa with one name in this form, or templates that `ClassPrompts` refuses.

    Example:
        >>> owls = [Taxon({"genus": "Bubo", "species": "bubo"}, "eagle-owl"), Taxon({"genus": "Strix"}, "wood owl")]
        >>> prompts = taxon_prompts(owls, "common")
        >>> prompts.plain(prompts.classes[1])
        ('a photo of wood owl.',)

    Source: the forms are BioCLIP's (Stevens et al., 2024), which mixes them in training.
    """
    return ClassPrompts(data_set, list(templates), [taxon.name(form) for taxon in taxa])
