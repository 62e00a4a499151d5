"""Other forms of a name: English number, articles, possessives, hyphens; letters without marks, in Latin script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.names.exact import ExactTable, first_of_each, is_wanted, places_of
from oven_retrieval.names.loops import loops_for
from oven_retrieval.names.places import NamePlaces, taken
from oven_retrieval.tokens import fold, hash64, plain

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64, UInt8, UInt32, UInt64

DIACRITICS = 64
"""Added to the number of changes if letters are plain ones: `Inflections.diacritics` skips these."""

_ARTICLE = re.compile(r"^(?:the|an?) (?=\S)")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b|(?<=s)['\u2019](?!\w)")
_APOSTROPHE = re.compile("['\u2019]")
_HYPHEN = re.compile(r"(?<=\w)[-\u2010-\u2015](?=\w)")
_PREPOSITION = re.compile(r"\w (?:of|in|at|for|on|to|by|from|with|without|de|du)\b")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_MARK = re.compile("['\u2019\\-\u2010-\u2015]")
_ENDING = re.compile(r"(?:s|i|ae?|eaux|men|oxen|children|brethren|feet|teeth|geese|mice|lice|dice|people|im)\b")
_SUFFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("men", ("man",)),
    ("feet", ("foot",)),
    ("teeth", ("tooth",)),
    ("geese", ("goose",)),
    ("mice", ("mouse",)),
    ("lice", ("louse",)),
    ("children", ("child",)),
    ("oxen", ("ox",)),
    ("brethren", ("brother",)),
    ("people", ("person",)),
    ("dice", ("die",)),
    ("eaux", ("eau",)),
    ("ies", ("y", "ie", "ies")),
    ("ves", ("f", "fe", "ve")),
    ("oes", ("o", "oe")),
    ("ices", ("ix", "ex", "ice")),
    ("sses", ("ss", "sse")),
    ("zzes", ("z", "zz")),
    ("ses", ("s", "se", "sis")),
    ("xes", ("x", "xe", "xis")),
    ("zes", ("z", "ze")),
    ("ches", ("ch", "che")),
    ("shes", ("sh", "she")),
    ("ides", ("ide", "is")),
    ("es", ("e", "is")),
    ("ss", ()),
    ("us", ()),
    ("is", ()),
    ("s", ("",)),
    ("ata", ("a",)),
    ("ae", ("a",)),
    ("a", ("um", "on")),
    ("i", ("us", "o")),
    ("im", ("",)),
)
_UNCHANGED = frozenset(
    (
        *("news", "series", "species", "means", "gallows", "barracks", "headquarters", "crossroads", "lens", "gas"),
        *("bus", "alas", "bias", "atlas", "canvas", "chaos", "christmas", "cosmos", "ethos", "iris", "physics"),
        *("mathematics", "economics", "politics", "athletics", "linguistics", "genetics", "statistics", "optics"),
        *("acoustics", "this", "his", "its", "yes", "always", "perhaps", "mars", "paris", "wales", "james", "charles"),
    )
)

Exceptions = Mapping[str, Sequence[str]]


def singulars(word: str, exceptions: Exceptions | None = None) -> list[str]:
    """What a word may be the plural of, likeliest first: exceptions, then the first rule whose ending it has."""
    candidates = list((exceptions or {}).get(word, ()))
    if word not in _UNCHANGED and len(word) > 2:
        for ending, instead in _SUFFIXES:
            if word.endswith(ending):
                stem = word[: -len(ending)]
                candidates += [stem + new for new in instead if len(stem + new) > 1 and stem + new != word]
                break
    return list(dict.fromkeys(candidates))


def read_exceptions(folder: str | Path) -> dict[str, tuple[str, ...]]:
    r"""The irregular plurals of a WordNet folder (`noun.exc`): plural -> singulars, underscores as blanks.

    Raises:
        FileNotFoundError: names the file that is missing.
        ValueError: a line without two words.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "noun.exc").write_text("corpora corpus\n", encoding="utf-8")
        >>> read_exceptions(folder)
        {'corpora': ('corpus',)}
    """
    file = Path(folder) / "noun.exc"
    exceptions: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
        if not line:
            continue
        plural, *singular = line.replace("_", " ").split(" ") if "_" not in line else line.split()
        if not singular:
            raise ValueError(f"{file}:{number}: expected a plural and its singulars, got {line!r:.60}")
        exceptions[plural.replace("_", " ")] = tuple(word.replace("_", " ") for word in singular)
    return exceptions


def plain_spellings(text: str) -> list[str]:
    """Return a folded text in plain letters (`oven_retrieval.tokens.plain`), and as German writes umlauts without dots.

    Example:
        >>> plain_spellings("île de ré"), plain_spellings("straßburger münster"), plain_spellings("хрущёв")
        (['ile de re'], ['strassburger munster', 'strassburger muenster'], ['khrushchev'])
    """
    umlauts = text.translate(_UMLAUTS)
    return [plain(text)] if umlauts == text else [plain(text), plain(umlauts)]


def forms(folded: str, exceptions: Exceptions | None = None) -> dict[str, int]:
    """Other texts that a folded name may be an inflection of, and how many changes lead to each.

    Number is that of the head: the last word, or the one before a preposition.
    """
    if (
        folded.isascii()
        and not folded.startswith(("the ", "a ", "an "))
        and _ENDING.search(folded) is None
        and _MARK.search(folded) is None
        and (not exceptions or folded.rpartition(" ")[2] not in exceptions)
    ):
        return {}
    changes_of = {folded: 0}
    for pattern, instead in ((_ARTICLE, ""), (_POSSESSIVE, ""), (_HYPHEN, " ")):
        for text, changes in list(changes_of.items()):
            changes_of.setdefault(pattern.sub(instead, text), changes + 1)
    for text, changes in list(changes_of.items()):
        for singular in _of_head(text, exceptions):
            changes_of.setdefault(singular, changes + 1)
    if not folded.isascii():
        for text, changes in list(changes_of.items()):
            for spelled in plain_spellings(text):
                changes_of.setdefault(spelled, changes + 1 + DIACRITICS)
    del changes_of[folded]
    return {text: changes for text, changes in changes_of.items() if text.strip()}


def _of_head(text: str, exceptions: Exceptions | None) -> Iterator[str]:
    preposition = _PREPOSITION.search(text)
    end = preposition.start() + 1 if preposition else len(text)
    start = max(text.rfind(" ", 0, end), text.rfind("-", 0, end)) + 1
    if _APOSTROPHE.search(text, start, end):
        return
    for head in dict.fromkeys((text[start:end], text[:end])):
        for singular in singulars(head, exceptions) if head == text[start:end] else (exceptions or {}).get(head, ()):
            yield text[: end - len(head)] + singular + text[end:]


class LooseMatches(NamedTuple):
    """Entities whose names are inflections of queries; ragged, [m] in order of query, then best first."""

    query: Int64[np.ndarray, " m"]
    row: Int64[np.ndarray, " m"]
    alias: Bool[np.ndarray, " m"]


class FormMatches(NamedTuple):
    """Names that are inflections of queries, [m], in no order; `changes` of both, others as in `LooseTable`."""

    query: Int64[np.ndarray, " m"]
    row: Int64[np.ndarray, " m"]
    alias: Bool[np.ndarray, " m"]
    shouted: Bool[np.ndarray, " m"]
    changes: Int64[np.ndarray, " m"]

    def best(self, popularity: Float64[np.ndarray, " m"], *, diacritics: bool) -> LooseMatches:
        """Each entity once: names before aliases, fewer changes, sentence case, greater popularity, the earlier row."""
        order = np.lexsort((self.row, -popularity, self.shouted, self.changes, self.alias, self.query))
        if not diacritics:
            order = order[self.changes[order] < DIACRITICS]
        query, row = self.query[order], self.row[order]
        once = first_of_each(query, row)
        return LooseMatches(query[once], row[once], self.alias[order][once])


class LooseTable(NamedTuple):
    """One value per form of a name, sorted by key.

    `key` hash of the form; `row` the entity; `alias`, `shouted`, `language` as in `NamePlaces`; `changes` as `forms`
    counts them.
    """

    key: UInt64[np.ndarray, " n"]
    row: Int32[np.ndarray, " n"]
    alias: Bool[np.ndarray, " n"]
    shouted: Bool[np.ndarray, " n"]
    changes: UInt8[np.ndarray, " n"]
    language: UInt32[np.ndarray, " n"] | None = None


class Inflections:
    """The step between folded names and typos.

    A name and a query meet where one of the query's forms is one of the name's; of those that do: names before
    aliases, fewer changes, sentence case, the greater popularity, the earlier row.

    Args:
        exact: the names as they are.
        loose: the other forms of names.
        popularity: of each entity.
        exceptions: irregular plurals.
        diacritics: whether "Ile de Re" is Île de Ré, "coeur" cœur, "Muenster" Münster and "Khrushchev" Хрущёв.
    """

    def __init__(
        self,
        exact: ExactTable,
        loose: LooseTable,
        popularity: Float64[np.ndarray, " rows"],
        exceptions: Exceptions | None = None,
        *,
        diacritics: bool = True,
    ) -> None:
        self._exact, self.table, self._popularity = exact, loose, popularity
        self.exceptions: Mapping[str, Sequence[str]] = exceptions or {}
        self.diacritics = diacritics

    @property
    def keys(self) -> UInt64[np.ndarray, " n"]:
        """Hashes of all other forms of names, rising."""
        return self.table.key

    def has_form_of(self, folded: str) -> bool:
        """Whether some form of a folded text, beside itself, is a name or a form of one."""
        other_forms = forms(folded, self.exceptions)
        if not other_forms:
            return False
        holds = loops_for().holds
        return any(holds(self.table.key, key) or holds(self._exact.key, key) for key in hash64(other_forms))

    def find(
        self,
        names: Sequence[str],
        wanted: UInt32[np.ndarray, " w"] | None = None,
        folded: tuple[Sequence[str], UInt64[np.ndarray, " q"]] | None = None,
    ) -> LooseMatches:
        """All entities of which each text is an inflection; `wanted` as in `ExactTable.find`.

        `folded` are the folded texts and their hashes, where they are known.
        """
        matches = self.matches(names, wanted, folded)
        return matches.best(self._popularity[matches.row], diacritics=self.diacritics)

    def matches(
        self,
        names: Sequence[str],
        wanted: UInt32[np.ndarray, " w"] | None = None,
        folded: tuple[Sequence[str], UInt64[np.ndarray, " q"]] | None = None,
    ) -> FormMatches:
        """All names of which each text is an inflection, in no order."""
        texts = [fold(name) for name in names] if folded is None else folded[0]
        own = hash64(texts) if folded is None else folded[1]
        query, other_forms, changes = list(range(len(texts))), [], [0] * len(texts)
        for number, text in enumerate(texts):
            for form, count in forms(text, self.exceptions).items():
                query.append(number)
                other_forms.append(form)
                changes.append(count)
        keys = np.concatenate([own, hash64(other_forms)])
        cost, of = np.array(changes, np.int64), np.array(query, np.int64)
        exact, loose = self._exact, self.table
        # The text itself has been looked for among the names as they are.
        changed = np.flatnonzero(cost > 0)
        of_exact, in_exact = places_of(exact.key, keys[changed])
        of_exact = changed[of_exact]
        of_loose, in_loose = places_of(loose.key, keys)
        if wanted is not None:
            spoken = is_wanted(exact.language, in_exact, wanted)
            of_exact, in_exact = of_exact[spoken], in_exact[spoken]
            spoken = is_wanted(loose.language, in_loose, wanted)
            of_loose, in_loose = of_loose[spoken], in_loose[spoken]
        more = np.concatenate([np.zeros(len(in_exact), np.int64), loose.changes[in_loose].astype(np.int64)])
        key_index = np.concatenate([of_exact, of_loose])
        total = cost[key_index] + more
        row = np.concatenate([exact.row[in_exact], loose.row[in_loose]]).astype(np.int64)
        alias = np.concatenate([exact.alias[in_exact], loose.alias[in_loose]])
        shouted = np.concatenate([exact.shouted[in_exact], loose.shouted[in_loose]])
        return FormMatches(of[key_index], row, alias, shouted, total)


def build_loose(names: Iterable[str], places: NamePlaces, exceptions: Exceptions | None = None) -> LooseTable:
    """Hash and sort the other forms of names, one text per place."""
    keys: list[npt.NDArray[np.uint64]] = []
    owners: list[npt.NDArray[np.int64]] = []
    counts: list[npt.NDArray[np.uint8]] = []
    texts: list[str] = []
    of: list[int] = []
    changes: list[int] = []

    def flush() -> None:
        keys.append(hash64(texts))
        owners.append(np.array(of, np.int64))
        counts.append(np.array(changes, np.uint8))
        for block in (texts, of, changes):
            block.clear()

    for number, name in enumerate(names):
        for text, count in forms(fold(name), exceptions).items():
            texts.append(text)
            of.append(number)
            changes.append(count)
        if len(texts) > 1 << 16:
            flush()
    flush()
    form_places = taken(places, np.concatenate(owners))
    table = LooseTable(
        np.concatenate(keys),
        form_places.row.astype(np.int32),
        form_places.alias,
        form_places.shouted,
        np.concatenate(counts),
        form_places.language,
    )
    return taken(table, np.lexsort((table.alias, table.row, table.key)))
