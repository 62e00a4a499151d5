"""Class embeddings in a file, and names of species."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from knowledge_prompts import ClassEmbeddings, Taxon, TruncationReport, class_embeddings, read_taxa, taxon_prompts
from knowledge_prompts.encoding.truncation import LongPrompt


def embeddings() -> ClassEmbeddings:
    weights = np.random.default_rng(0).normal(size=(3, 5))
    weights = (weights / np.linalg.norm(weights, axis=1, keepdims=True)).astype(np.float32)
    long = (LongPrompt("a long prompt", 99, ("wren", "hibou é"), ("own",), "a long"),)
    return ClassEmbeddings(weights, ("owl", "wren", "hibou é"), 12, 9, TruncationReport(77, 12, long, 4))


def test_all_of_it_comes_back(tmp_path: Path) -> None:
    whole = embeddings()
    whole.save(tmp_path / "birds.npz")
    again = ClassEmbeddings.load(tmp_path / "birds.npz")
    np.testing.assert_array_equal(again.weights, whole.weights)
    assert (again.classes, again.prompts, again.encoded) == (whole.classes, 12, 9)
    assert again.truncation == whole.truncation
    assert [path.name for path in tmp_path.iterdir()] == ["birds.npz"]
    plain = class_embeddings(lambda texts: np.array([[len(text), 1.0] for text in texts]), ["owl", "heron"])
    plain.save(str(tmp_path / "plain.npz"))
    assert ClassEmbeddings.load(tmp_path / "plain.npz").truncation is None


def changed(path: Path, **fields: object) -> None:
    with np.load(path) as held:
        weights, about = held["weights"], json.loads(held["about"].tobytes())
    weights = fields.pop("weights", weights)
    text = json.dumps({**about, **fields}).encode()
    np.savez(path, weights=weights, about=np.frombuffer(text, np.uint8))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "other"}, "holds no class embeddings that `save` wrote: another format"),
        ({"classes": ["owl"]}, r"float32 \[3, 5\]; expected float32 \[1, d\]"),
        ({"classes": ["owl", 2, "wren"]}, "classes should be texts"),
        ({"classes": "owl"}, "classes are no list"),
        ({"prompts": "1_0"}, "expected whole numbers of at least 0"),
        ({"encoded": -1}, "expected whole numbers of at least 0"),
        ({"truncation": {"limit": 3}}, "holds no class embeddings that `save` wrote"),
        ({"weights": np.ones((3, 5), np.float32)}, "expected rows of length 1: the file was changed"),
        ({"weights": np.full((3, 5), np.nan, np.float32)}, "expected rows of length 1"),
        ({"weights": np.eye(3)}, "float64"),
        ({"weights": np.array([{}], object)}, "holds no class embeddings that `save` wrote"),
    ],
)
def test_a_file_of_strangers_is_one_line(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    path = tmp_path / "birds.npz"
    embeddings().save(path)
    changed(path, **fields)
    with pytest.raises(ValueError, match=message) as raised:
        ClassEmbeddings.load(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_files_and_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(ValueError, match=r"text\.npz holds no class embeddings"):
        ClassEmbeddings.load(tmp_path / "text.npz")
    with pytest.raises(FileNotFoundError):
        ClassEmbeddings.load(tmp_path / "gone.npz")
    with pytest.raises(ValueError, match=r"expected a file that ends in \.npz"):
        embeddings().save(tmp_path / "birds.pt")


ROW = "kingdom,phylum,class,order,family,genus,species,common_name\n"
OWL = "Animalia,Chordata,Aves,Strigiformes,Strigidae,Bubo,Bubo scandiacus,snowy owl\n"


def test_species_have_five_names(tmp_path: Path) -> None:
    (tmp_path / "owls.csv").write_text(ROW + OWL + "Animalia,Chordata,Aves,,,Strix,,\n")
    owl, genus = read_taxa(tmp_path / "owls.csv")
    path = "Animalia Chordata Aves Strigiformes Strigidae Bubo scandiacus"
    assert [owl.name(form) for form in ("scientific", "common", "taxonomic")] == ["Bubo scandiacus", "snowy owl", path]
    assert owl.name("scientific with common") == "Bubo scandiacus with common name snowy owl"
    assert owl.name("taxonomic with common") == f"{path} with common name snowy owl"
    assert {genus.name(form) for form in ("scientific", "common", "scientific with common")} == {"Strix"}
    assert genus.name("taxonomic with common") == "Animalia Chordata Aves Strix"
    prompts = taxon_prompts([owl, genus], "common", ["a photo of a {}.", "ein Foto von {}."])
    assert prompts.plain("snowy owl") == ("a photo of a snowy owl.", "ein Foto von snowy owl.")


def test_what_is_no_taxon_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "owls.csv"
    for content, message in (
        ("name,common\nBubo,owl\n", "line 1: expected columns of kingdom"),
        ("genus,common,Common\nBubo,owl,\n", "line 1: a column comes twice"),
        ('genus,"common\nBubo,owl\n', "is a quote opened and not closed"),
        (ROW + ",,,,,,,owl\n", r"line 2: ranks \{\}; expected some of kingdom"),
        (ROW + OWL.strip() + ",more\n", "line 2: more fields than the header has"),
        (ROW + 'Animalia,"Chordata\n', "line 2: unexpected end of data"),
        ('genus,common\nBubo,"owl\nStrix,owl"\nTyto,x\n', "line 3: a quote opens in this row and holds the next"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message) as raised:
            read_taxa(path)
        assert str(raised.value).startswith(str(path))
    with pytest.raises(ValueError, match="form 'latin'; expected one of scientific"):
        Taxon({"genus": "Bubo"}).name("latin")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="class name 'Bubo' comes 2 times"):
        taxon_prompts([Taxon({"genus": "Bubo"})] * 2)


def test_what_is_saved_can_be_loaded(tmp_path: Path) -> None:
    unit = np.eye(2, dtype=np.float32)
    wrong: list[tuple[object, tuple[str, ...]]] = [
        (unit.astype(float), ("a", "b")),
        (2 * unit, ("a", "b")),
        (unit, ("a",)),
    ]
    for weights, classes in wrong:
        with pytest.raises(ValueError, match=r"birds\.npz"):
            ClassEmbeddings(weights, classes, 2, 2, None).save(tmp_path / "birds.npz")  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []
    ClassEmbeddings(unit, np.array(["a", "b"]), 2, 2, None).save(tmp_path / "birds.npz")  # type: ignore[arg-type]
    assert ClassEmbeddings.load(tmp_path / "birds.npz").classes == ("a", "b")


def test_a_pipe_and_what_unpacks_beyond_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(ValueError, match="is no file that holds data"):
        ClassEmbeddings.load(tmp_path / "pipe.npz")
    embeddings().save(tmp_path / "birds.npz")
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "100")
    with pytest.raises(ValueError, match=r"birds\.npz, unpacked, has .* bytes, more than 100"):
        ClassEmbeddings.load(tmp_path / "birds.npz")


def test_a_class_with_two_vectors_is_refused(tmp_path):
    """A class that comes twice with one vector is ImageNet's crane."""
    twice = ClassEmbeddings(np.eye(2, dtype=np.float32)[[0, 1, 0]], ("crane", "owl", "crane"), 3, 2, None)
    twice.save(tmp_path / "a.npz")
    assert ClassEmbeddings.load(tmp_path / "a.npz").classes == ("crane", "owl", "crane")
    other = ClassEmbeddings(np.eye(2, dtype=np.float32)[[0, 1, 1]], ("crane", "owl", "crane"), 3, 2, None)
    other.save(tmp_path / "b.npz")
    with pytest.raises(ValueError, match=r"b.npz: class 'crane' has different vectors in rows 0 and 2; expected one"):
        ClassEmbeddings.load(tmp_path / "b.npz")
