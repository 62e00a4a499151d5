"""Each suite's reader on files in exactly the original form, written here; and what its scores are made of."""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from eqben_builder.formats import Picture, encode_png, read_any
from eqben_builder.formats.parquet import batches
from eqben_builder.formats.row import videos_of
from eqben_builder.suites import SUITES, Similarities, SuiteData, SuiteRow, read_gallery, read_suite, suite_table
from eqben_builder.suites.files import Files
from eqben_builder.suites.galleries import right_ranks

PICTURE = Picture(content=b"")


def image(root, *names, size=(8, 6)):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (10, 20, 30)).save(path)


def dump(root, name, content):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def read(root, name, **options):
    return read_suite(SUITES[name], root, **options)


def write_sugarcrepe(root):
    row = {"filename": "000000000139.jpg", "caption": "A red cup.", "negative_caption": "A blue cup."}
    for subset in ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att"):
        dump(root, f"sugarcrepe/data/{subset}.json", {"0": row})
    # The keys skip 108, as in the original since 2023-11-18.
    dump(root, "sugarcrepe/data/swap_obj.json", {"107": row, "109": row | {"filename": "000000000285.jpg"}})
    image(root, "coco/val2017/000000000139.jpg", "coco/val2017/000000000285.jpg")


def test_sugarcrepe(tmp_path):
    write_sugarcrepe(tmp_path)
    data = read(tmp_path, "sugarcrepe")
    assert len(data.rows) == 8
    row = next(row for row in data.rows if row.id == "swap_obj/109")
    assert row.captions == ("A red cup.", "A blue cup.")
    assert (row.subset, row.cluster, row.shape) == ("swap_obj", "000000000285.jpg", "captions")
    assert row.images[0].load().shape == (6, 8, 3)
    assert "swap_obj: 2 questions, the version that is known has 245" in data.notes


def test_missing_pictures_are_counted_and_named(tmp_path):
    write_sugarcrepe(tmp_path)
    (tmp_path / "coco/val2017/000000000285.jpg").unlink()
    data = read(tmp_path, "sugarcrepe")
    assert dict(data.missing) == {"val2017/000000000285.jpg": 1}
    assert dict(data.left_out) == {"swap_obj": 1}
    assert data.notes[0] == ("1 of 8 questions are left out: 1 image is missing (val2017/000000000285.jpg)")
    (tmp_path / "coco/val2017/000000000139.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="not one image of SugarCrepe is there: 2 are missing, such as"):
        read(tmp_path, "sugarcrepe")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda r: r.pop("caption"),
            r"add_obj.json, row '0': no field 'caption'; there are filename, negative_caption",
        ),
        (lambda r: r.update(caption=3), r"row '0': field 'caption' should be a text, found 3"),
        (lambda r: r.update(filename="../../x.jpg"), r"'val2017/../../x.jpg' leads out of its folder"),
    ],
)
def test_a_broken_row_has_its_file_row_and_field(tmp_path, change, message):
    write_sugarcrepe(tmp_path)
    row = {"filename": "000000000139.jpg", "caption": "A red cup.", "negative_caption": "A blue cup."}
    change(row)
    dump(tmp_path, "sugarcrepe/data/add_obj.json", {"0": row})
    with pytest.raises(ValueError, match=message):
        read(tmp_path, "sugarcrepe")


def places_in(value, folder=()):
    """Where something stands in a JSON value: of a list the first entry alone."""
    yield folder
    members = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, member in members:
        yield from places_in(member, (*folder, key))


def with_another(value, folder, other):
    if not folder:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[folder[0]] = with_another(value[folder[0]], folder[1:], other)
    return copy


@pytest.mark.parametrize("other", [None, -1, 1.5, "x", "\ud800", True, [], [1], {}, {"a": 1}, 10**30])
def test_whatever_a_file_holds_the_error_is_one_line_with_its_name(tmp_path, other):
    """Any value of any type in any place of a suite's or gallery's JSON: read, or refused by file and row."""
    write_sugarcrepe(tmp_path)
    write_aro(tmp_path)
    write_valse(tmp_path)
    write_coco(tmp_path)
    options = ["A cup left of a chair", "A cup on a chair"]
    for name in ("controlled_images_dataset", "controlled_clevr_dataset"):
        dump(tmp_path, f"whatsup/{name}.json", [{"image_path": "a/b/cup_on_chair.jpg", "caption_options": options}])
    for name in ("coco_qa_one_obj", "coco_qa_two_obj", "vg_qa_one_obj", "vg_qa_two_obj"):
        dump(tmp_path, f"whatsup/{name}.json", [[139, *options]])
    image(tmp_path, "whatsup/b/cup_on_chair.jpg")
    reads = {
        "sugarcrepe/data/add_obj.json": lambda: read(tmp_path, "sugarcrepe"),
        "aro/visual_genome_attribution.json": lambda: read(tmp_path, "aro"),
        "aro/coco_order.json": lambda: read(tmp_path, "aro"),
        "valse/data/plurals.json": lambda: read(tmp_path, "valse"),
        "whatsup/controlled_images_dataset.json": lambda: read(tmp_path, "whatsup"),
        "whatsup/coco_qa_two_obj.json": lambda: read(tmp_path, "whatsup"),
        "coco/dataset_coco.json": lambda: read_gallery(tmp_path, "coco"),
    }
    refusals = []
    for name, read_again in reads.items():
        content = json.loads((tmp_path / name).read_text())
        read_again()
        for position in places_in(content):
            dump(tmp_path, name, with_another(content, position, other))
            try:
                read_again()
            except FileNotFoundError:
                pass  # an image of another name
            except ValueError as error:
                refusals.append((name.rpartition("/")[2], position, str(error)))
        dump(tmp_path, name, content)
    assert len(refusals) > 20
    for name, position, message in refusals:
        assert name in message, position
        assert "\n" not in message


def test_questions_that_cannot_be_won_and_other_kinds_of_file_are_said(tmp_path):
    write_sugarcrepe(tmp_path)
    same = {"filename": "000000000139.jpg", "caption": "A cup.", "negative_caption": "A cup."}
    dump(tmp_path, "sugarcrepe/data/add_obj.json", {"0": same})
    notes = [note for note in read(tmp_path, "sugarcrepe").notes if "cannot be won" in note]
    assert notes == ["add_obj: 1 question has the right caption among the wrong ones, and cannot be won"]
    dump(tmp_path, "sugarcrepe/data/add_obj.json", [same])
    with pytest.raises(ValueError, match="expected a JSON dict, found a list"):
        read(tmp_path, "sugarcrepe")
    with pytest.raises(FileNotFoundError, match=r"holds none of data/replace_obj\.json, replace_obj\.json"):
        read_suite(SUITES["sugarcrepe"], tmp_path / "coco")


def test_sugarcrepe_pp(tmp_path):
    texts = {"caption": "A red cup.", "caption2": "The cup is red.", "negative_caption": "A blue cup."}
    row = {"id": 0, "filename": "000000000139.jpg"} | texts
    for subset in ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att"):
        dump(tmp_path, f"sugarcrepe-pp/data/{subset}.json", [row])
    image(tmp_path, "val2017/000000000139.jpg")
    data = read(tmp_path, "sugarcrepe-pp")
    assert [row.shape for row in data.rows] == ["paraphrases"] * 5
    assert data.rows[0].captions == tuple(texts.values())


def write_aro(root):
    row = {"image_path": "2353.jpg", "bbox_x": 2, "bbox_y": 1, "bbox_w": 4, "bbox_h": 3}
    swapped = {"true_caption": "the cup is on the table", "false_caption": "the table is on the cup"}
    dump(root, "aro/visual_genome_relation.json", [row | swapped | {"relation_name": "on"}])
    dump(root, "aro/visual_genome_attribution.json", [row | swapped | {"attributes": ["red", "blue"]}])
    image(root, "aro/images/2353.jpg")
    drawn = {
        "image": "val2014/COCO_val2014_000000000042.jpg",
        "captions": ["a b c", "b a c", "c a b", "a c b", "c b a"],
    }
    dump(root, "aro/coco_order.json", [drawn])
    image(root, "coco/val2014/COCO_val2014_000000000042.jpg")


def test_aro_crops_to_the_box_and_takes_a_stored_draw(tmp_path):
    write_aro(tmp_path)
    data = read(tmp_path, "aro")
    assert [row.subset for row in data.rows] == ["vg_relation", "vg_attribution", "coco_order"]
    assert data.rows[0].images[0].load().shape == (3, 4, 3)
    assert [row.group for row in data.rows] == ["on", "red_blue", ""]
    assert len(data.rows[2].captions) == 5
    assert any("flickr30k_order: left out: its captions are shuffled when ARO is run" in note for note in data.notes)
    content = json.loads((tmp_path / "aro/visual_genome_relation.json").read_text())
    dump(tmp_path, "aro/visual_genome_relation.json", [content[0] | {"bbox_w": 0}])
    with pytest.raises(ValueError, match="holds no pixel"):
        read(tmp_path, "aro")


def test_pictures_are_decoded_as_the_authors_code_does(tmp_path):
    """Published scores were computed on `Image.open(...).convert("RGB")`."""
    write_sugarcrepe(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 4), dtype=np.uint8)
    path = next(path for path in tmp_path.rglob("*.jpg"))
    Image.fromarray(pixels).save(path, "PNG", exif=exif)
    (official,) = {
        picture for row in read(tmp_path, "sugarcrepe").rows for picture in row.images if picture.path == path
    }
    assert np.array_equal(official.load(), np.asarray(Image.open(path).convert("RGB")))


def test_frozen_orders_know_their_pictures_by_the_bytes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    write_aro(tmp_path)
    (tmp_path / "aro/coco_order.json").unlink()
    pictures = [encode_png(np.full((4, 5, 3), k, np.uint8)) for k in (1, 1, 2)]
    texts = {
        name: [f"{name} {k}" for k in range(3)]
        for name in ("correct_caption", *(f"hard_text_{k}" for k in (1, 2, 3, 4)))
    }
    folder = tmp_path / "aro/ARO-COCO-order/data"
    folder.mkdir(parents=True)
    table = pa.table({"images": [{"bytes": picture, "path": None} for picture in pictures], **texts})
    pq.write_table(table, folder / "test-0.parquet")
    rows = [row for row in read(tmp_path, "aro").rows if row.subset == "coco_order"]
    assert rows[1].captions == ("correct_caption 1", *(f"hard_text_{k} 1" for k in (1, 2, 3, 4)))
    assert rows[0].images == rows[1].images != rows[2].images
    assert len({row.cluster for row in rows}) == 2
    assert rows[2].images[0].load()[0, 0].tolist() == [2, 2, 2]
    pq.write_table(table.drop_columns(["hard_text_3"]), folder / "test-0.parquet")
    with pytest.raises(ValueError, match="no column 'hard_text_3'"):
        read(tmp_path, "aro")


@pytest.mark.parametrize(
    "box", [(-2, 4, 5, 9), (1, 1, 3, 2), (6, -3, 9, 4), (8, 0, 3, 3), (-9, -9, 2, 2), (-1, -1, 12, 12)]
)
def test_boxes_beyond_the_picture_are_black_there_as_pillow_crops(tmp_path, box):
    pixels = np.random.default_rng(0).integers(1, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    left, top, width, height = box
    expected = np.asarray(Image.fromarray(pixels).crop((left, top, left + width, top + height)))
    assert np.array_equal(Picture(tmp_path / "a.png", box=box).load(), expected)


def test_a_box_of_too_many_pixels_is_refused(tmp_path):
    image(tmp_path, "a.png")
    with pytest.raises(ValueError, match="10,000,000,000 pixels"):
        Picture(tmp_path / "a.png", box=(0, 0, 100_000, 100_000)).load()


def csv_text(rows):
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def write_crepe(root):
    base = {"image_id": 2353, "caption": "cup on table", "x": 1, "y": 1, "width": 4, "height": 3}
    prod = base | {"hard_negs": "['cup under table', \"cup's table\"]"}
    syst = base | {f"valid_hard_negs_{kind}": "['cup under table']" for kind in ("atom", "comp", "combined")}
    (root / "crepe").mkdir(parents=True)
    for archive, name, row in (
        ("prod_hard_negatives.zip", "prod/atom/prod_vg_hard_negs_atom_complexity_4.csv", prod),
        ("syst_hard_negatives.zip", "syst_vg_hard_negs_seen_compounds_in_cc12m.csv", syst),
    ):
        with zipfile.ZipFile(root / "crepe" / archive, "w") as opened:
            opened.writestr(name, csv_text([row]))
    image(root, "visual_genome/VG_100K_2/2353.jpg")


def test_crepe_reads_its_zips_and_lists_as_literals(tmp_path):
    write_crepe(tmp_path)
    data = read(tmp_path, "crepe")
    subsets = ["prod/atom/4", "syst/seen/cc12m/atom", "syst/seen/cc12m/comp", "syst/seen/cc12m/combined"]
    assert [row.subset for row in data.rows] == subsets
    assert data.rows[0].captions == ("cup on table", "cup under table", "cup's table")
    assert data.rows[0].images[0].load().shape == (3, 4, 3)
    row = {"image_id": 2353, "caption": "c", "x": 1, "y": 1, "width": 4, "height": 3, "hard_negs": "__import__('os')"}
    (tmp_path / "crepe/prod_vg_hard_negs_swap_complexity_5.csv").write_text(csv_text([row]))
    with pytest.raises(ValueError, match=r"line 2, column 'hard_negs' should be a list of texts, found \"__import__"):
        read(tmp_path, "crepe")
    (tmp_path / "crepe/prod_vg_hard_negs_swap_complexity_5.csv").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match=r"prod_vg_hard_negs_swap_complexity_5.csv is no table"):
        read(tmp_path, "crepe")
    (tmp_path / "crepe/prod_hard_negatives.zip").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"prod_hard_negatives.zip cannot be read from its archive"):
        read(tmp_path, "crepe")


def write_valse(root):
    from eqben_builder.suites.caption_choice import VALSE

    row = {"image_file": "v7w_1.jpg", "caption": "There are two cups.", "foil": "There are three cups.",
           "mturk": {"caption": 3, "foil": 0, "other": 0}, "linguistic_phenomena": "counting"}  # fmt: skip
    for stem in VALSE:
        dump(root, f"valse/data/{stem}.json", {"a 1": row, "a 2": row | {"mturk": {"caption": 1}}})
    image(root, "valse/images/v7w_1.jpg")


def test_valse_leaves_out_what_annotators_did_not_confirm(tmp_path):
    write_valse(tmp_path)
    data = read(tmp_path, "valse")
    assert len(data.rows) == 11
    assert {row.id for row in data.rows} >= {"existence/a 1", "foil_it/a 1"}
    assert "existence: 1 row left out that annotators did not confirm, as VALSE does" in data.notes


def test_vl_checklist_reads_the_first_thousand_rows_of_each_file(tmp_path):
    root = tmp_path / "vl-checklist"
    (root / "corpus/v1/Attribute/color").mkdir(parents=True)
    settings = 'ANNO_PATH: "data/Attribute/vg/color.json"\nIMG_ROOT: "vg/"\nTYPE: "TUPLE_JSON"\n'
    (root / "corpus/v1/Attribute/color/vg.yaml").write_text(settings)
    entry = ["VG_100K/1.jpg", {"POS": ["red cup"], "NEG": ["blue cup"]}]
    dump(root, "data/Attribute/vg/color.json", [entry] * 1200)
    image(root, "vg/VG_100K/1.jpg")
    data = read(tmp_path, "vl-checklist")
    assert len(data.rows) == 1000
    assert data.rows[0].subset == "Attribute/color/vg"


def test_whatsup_has_pairs_and_sets_of_four(tmp_path):
    root = tmp_path / "whatsup"
    options = [f"A cup {where} a chair" for where in ("left of", "right of", "on", "under")]
    names = ["cup_left_of_chair", "cup_right_of_chair", "cup_on_chair", "cup_under_chair"]
    rows = [{"image_path": f"data/controlled_images/{name}.jpeg", "caption_options": options} for name in names]
    dump(root, "controlled_images_dataset.json", rows)
    b = [{"image_path": "data/controlled_clevr/cup_in-front_of_chair.jpeg", "caption_options": options}]
    dump(root, "controlled_clevr_dataset.json", b)
    for name in ("coco_qa_one_obj", "coco_qa_two_obj", "vg_qa_one_obj", "vg_qa_two_obj"):
        dump(root, f"{name}.json", [[139, "A photo of a cup to the left", "A photo of a cup to the right"]])
    image(root, *(f"controlled_images/{name}.jpeg" for name in names))
    image(root, "controlled_clevr/cup_in-front_of_chair.jpeg", "val2017/000000000139.jpg", "vg_images/139.jpg")
    data = read(tmp_path, "whatsup")
    assert len(data.rows) == 9
    sets = [row.sets for row in data.rows if row.subset == "a"]
    assert len({row_sets["pair"] for row_sets in sets}) == 2
    assert len({row_sets["set of four"] for row_sets in sets}) == 1


def test_spec_puts_the_right_key_first_in_both_directions(tmp_path):
    from eqben_builder.suites.picture_pairs import SPEC

    for subset in SPEC:
        root = tmp_path / "spec" / subset
        keys = ["one cup", "two cups", "three cups"]
        dump(root, "image2text.json", [{"query": "images/0.jpg", "keys": keys, "label": 2}])
        places = ["images/0.jpg", "images/1.jpg"]
        dump(root, "text2image.json", [{"query": "two cups", "keys": places, "label": 1}])
        image(root, "images/0.jpg", "images/1.jpg")
    data = read(tmp_path, "spec")
    assert data.rows[0].captions == ("three cups", "one cup", "two cups")
    assert [picture.path.name for picture in data.rows[1].images] == ["1.jpg", "0.jpg"]
    assert (data.rows[1].subset, data.rows[1].shape) == ("text to image/existence", "images")
    dump(tmp_path, "spec/count/image2text.json", [{"query": "images/0.jpg", "keys": ["a", "b"], "label": 2}])
    with pytest.raises(ValueError, match="field 'label' is 2, expected an index into 'keys'"):
        read(tmp_path, "spec")
    dump(tmp_path, "spec/count/image2text.json", [{"query": "images/0.jpg", "keys": ["a", "b"], "label": True}])
    with pytest.raises(ValueError, match="field 'label' is True, expected an index into 'keys'"):
        read(tmp_path, "spec")


def test_countbench_replaces_the_number_word(tmp_path):
    row = {"image_url": "https://a.org/x/c.jpg?w=1", "text": "Three cups on three tables", "number": 3}
    dump(tmp_path, "countbench/CountBench.json", [row])
    image(tmp_path, "countbench/images/c.jpg")
    (question,) = read(tmp_path, "countbench").rows
    assert question.captions[:3] == ("Three cups on three tables", "Two cups on two tables", "Four cups on four tables")
    assert len(set(question.captions)) == 9
    dump(tmp_path, "countbench/CountBench.json", [row | {"number": 4}])
    with pytest.raises(ValueError, match="does not hold the word 'four'"):
        read(tmp_path, "countbench")


def test_svo_probes_and_vsr(tmp_path):
    row = {"sentence": "A man rides a horse.", "pos_triplet": "man,ride,horse", "neg_triplet": "man,ride,bike",
           "pos_url": "u", "neg_url": "v", "pos_image_id": "1", "neg_image_id": "2", "subj_neg": "False",
           "verb_neg": "True", "obj_neg": "True"}  # fmt: skip
    (tmp_path / "svo-probes").mkdir()
    (tmp_path / "svo-probes/svo_probes.csv").write_text(csv_text([row]))
    image(tmp_path, "svo-probes/images/1.jpg", "svo-probes/images/2.jpg")
    data = read(tmp_path, "svo-probes")
    assert [(question.subset, question.shape) for question in data.rows] == [("verb", "images"), ("obj", "images")]
    record = {"image": "1.jpg", "image_link": "http://x/train2017/1.jpg", "caption": "It is left.", "label": 1,
            "relation": "left of", "subj": "[18, 2]"}  # fmt: skip
    for split in ("random", "zeroshot"):
        path = tmp_path / "vsr/data/splits" / split / "test.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record) + "\n" + json.dumps(record | {"label": 0}) + "\n")
    image(tmp_path, "coco/train2017/1.jpg")
    data = read(tmp_path, "vsr")
    assert [question.label for question in data.rows] == [True, False, True, False]
    path.write_text(json.dumps(record | {"label": "yes"}) + "\n")
    with pytest.raises(ValueError, match=r"line 1: field 'label' is 'yes', expected 0 or 1"):
        read(tmp_path, "vsr")


@pytest.mark.parametrize(("change", "message"), [
    (lambda text: text.replace("ride a horse 2", '"ride a horse 2'), r"svo_probes\.csv, line 4 is no row of a table"),
    (lambda text: text.replace("ride a horse 2", 'ride a "horse" 2'), "no fault"),
    (lambda text: text.replace("ride a horse 2", '"ride a horse 2').replace("ride a horse 5", 'a disc of 5"'),
     r"svo_probes\.csv, line 4: a quote opens in this row and holds another, 'ride a horse"),
    (lambda text: text.replace("ride a horse 2", '"ride a horse 2\nand another, too"'), "no fault"),
    (lambda text: text.replace("u,", "u,u,", 1), r"line 2: 12 fields, expected 11"),
    (lambda text: text.replace("neg_url", "pos_url"), "line 1: column 'pos_url' comes twice"),
])  # fmt: skip
def test_no_quote_swallows_rows(tmp_path, change, message):
    row = {"sentence": "", "pos_triplet": "a", "neg_triplet": "b", "pos_url": "u", "neg_url": "v", "pos_image_id": "1",
           "neg_image_id": "2", "subj_neg": "False", "verb_neg": "True", "obj_neg": "False", "more": "x"}  # fmt: skip
    (tmp_path / "svo-probes").mkdir()
    image(tmp_path, "svo-probes/images/1.jpg", "svo-probes/images/2.jpg")
    text = change(csv_text([row | {"sentence": f"ride a horse {number}"} for number in range(9)]))
    (tmp_path / "svo-probes/svo_probes.csv").write_text(text)
    if message == "no fault":
        assert len(read(tmp_path, "svo-probes").rows) == 9
        return
    with pytest.raises(ValueError, match=message):
        read(tmp_path, "svo-probes")


def test_colorswap_naturalbench_cola_and_mmvp(tmp_path):
    swap = {"id": 7, "caption_1": "a red cup on a blue table", "caption_2": "a blue cup on a red table",
            "image_1": "images/img_7_1.png", "image_2": "images/img_7_2.png", "image_source": "midjourney",
            "caption_source": "human"}  # fmt: skip
    dump(tmp_path, "colorswap/data/test.json", [swap])
    image(tmp_path, "colorswap/data/images/img_7_1.png", "colorswap/data/images/img_7_2.png")
    (row,) = read(tmp_path, "colorswap").rows
    assert (row.id, row.shape, row.captions[1]) == ("7", "pairs", "a blue cup on a red table")
    natural = {"index": 0, "image_0": "a.jpg", "image_1": "b.jpg", "caption_0": "a", "caption_1": "b"}
    dump(tmp_path, "naturalbench/metadata.json", [natural])
    image(tmp_path, "naturalbench/images/a.jpg", "naturalbench/images/b.jpg")
    assert len(read(tmp_path, "naturalbench").rows) == 1
    dump(tmp_path, "naturalbench/metadata.json", [natural | {"index": 1}])
    with pytest.raises(ValueError, match="field 'index' is 1, expected 0"):
        read(tmp_path, "naturalbench")
    links = ["https://x.org/vg_gqa_images/1.jpg", "a red cup", "https://x.org/vg_gqa_images/2.jpg", "a blue cup"]
    dump(tmp_path, "cola/data/COLA_multiobjects_matching_benchmark.json", [links])
    image(tmp_path, "visual_genome/VG_100K/1.jpg", "visual_genome/VG_100K_2/2.jpg")
    (row,) = read(tmp_path, "cola").rows
    assert [picture.path.name for picture in row.images] == ["1.jpg", "2.jpg"]


@pytest.mark.parametrize("content", [-1, 1.5, {"a": 1}, [["a", "b", 3, "c"]], [[1, 2, 3, 4]]])
def test_a_cola_file_of_another_kind_is_named(tmp_path, content):
    dump(tmp_path, "cola/data/COLA_multiobjects_matching_benchmark.json", content)
    with pytest.raises(ValueError, match="COLA_multiobjects_matching_benchmark"):
        read(tmp_path, "cola")


@pytest.mark.parametrize(
    ("folder", "rows", "message"),
    [
        ("../secret.json", [], "leads out of its folder"),
        ("/etc/passwd", [], "leads out of its folder"),
        ("1" * 5000, [], "holds none of"),
        ("a.json", {"a": 1}, "expected a JSON list"),
        ("a.json", [[7, {"POS": ["a"], "NEG": ["b"]}]], "expected .image, texts"),
        ("a.json", [["p.jpg", {"POS": [], "NEG": 3}]], "should be lists of texts"),
    ],
)
def test_a_checklist_that_names_what_it_should_not(tmp_path, folder, rows, message):
    root = tmp_path / "data" / "vl-checklist"
    (root / "corpus/v1").mkdir(parents=True)
    (root / "corpus/v1/a.yaml").write_text(f"ANNO_PATH: {folder}\nIMG_ROOT: vg/\n")
    dump(root, "a.json", rows)
    dump(tmp_path, "data/secret.json", [["p.jpg", {"POS": ["a"], "NEG": ["b"]}]])
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(tmp_path / "data", "vl-checklist")


def test_a_name_that_no_file_can_have_is_missing(tmp_path):
    rows = [
        {"index": number, "image_0": name, "image_1": "b.jpg", "caption_0": "a", "caption_1": "b"}
        for number, name in enumerate(("1" * 400, "a\0.jpg", "b.jpg"))
    ]
    dump(tmp_path, "naturalbench/metadata.json", rows)
    image(tmp_path, "naturalbench/images/b.jpg")
    data = read(tmp_path, "naturalbench")
    assert (len(data.rows), sum(data.missing.values())) == (1, 2)


def test_mmvp_pairs_questions_by_number(tmp_path):
    lines = ["Question ID,Type,Statement", "2,Orientation,a cup facing right", "1,Orientation,a cup facing left"]
    root = tmp_path / "mmvp"
    root.mkdir()
    (root / "Questions.csv").write_text("\n".join(lines) + "\n")
    image(root, "MLLM_VLM Images/Orientation/1.jpg", "MLLM_VLM Images/Orientation/2.jpg")
    (row,) = read(tmp_path, "mmvp").rows
    assert row.captions == ("a photo of a cup facing left", "a photo of a cup facing right")
    assert row.id == "1-2"
    (root / "Questions.csv").write_text("\n".join(lines[:2]) + "\n")
    with pytest.raises(ValueError, match="numbered from 1 without gaps"):
        read(tmp_path, "mmvp")


def png():
    file = io.BytesIO()
    Image.new("RGB", (8, 6)).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def test_bivlc_and_vismin_are_read_from_their_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for folder in ("bivlc/data", "vismin/data/test"):
        (tmp_path / folder).mkdir(parents=True)
    row = {"image": png(), "caption": "a", "negative_caption": "b", "negative_image": png(), "type": "replace",
           "subtype": "obj"}  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "bivlc/data/test-00000-of-00001.parquet")
    (question,) = read(tmp_path, "bivlc").rows
    assert question.subset == "replace/obj"
    assert question.images[1].load().shape == (6, 8, 3)
    row = {"id": "x1", "image_0": png(), "text_0": "a", "image_1": png(), "text_1": "b", "category": "counting"}
    table = pa.Table.from_pylist([row])
    path = tmp_path / "vismin/data/test/data-00000-of-00003.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    (question,) = read(tmp_path, "vismin").rows
    assert (question.subset, question.captions) == ("counting", ("a", "b"))
    assert question.images[0].load().shape == (6, 8, 3)
    path.write_bytes(b"no arrow")
    with pytest.raises(ValueError, match="cannot be read"):
        read(tmp_path, "vismin")


def bivlc_of(root, rows):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (root / "bivlc").mkdir(exist_ok=True)
    row = {"image": png(), "caption": "a", "negative_caption": "b", "negative_image": png(), "type": "replace",
           "subtype": "obj"}  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row | changed for changed in rows]), root / "bivlc/test.parquet")
    return lambda: read(root, "bivlc")


@pytest.mark.parametrize(("field", "value"), [("caption", None), ("negative_caption", 5), ("caption", ["a"]),
                                              ("caption", " "), ("type", None), ("subtype", float("nan"))])  # fmt: skip
def test_texts_of_a_table_are_texts(tmp_path, field, value):
    with pytest.raises(ValueError, match=rf"test\.parquet, row 0: field {field!r} should be a text"):
        bivlc_of(tmp_path, [{field: value}])()


def test_a_date_that_python_has_not_is_one_line(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    bivlc_of(tmp_path, [{}])
    path = tmp_path / "bivlc/test.parquet"
    times = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("caption"), "caption", times), path)
    with pytest.raises(ValueError, match=r"test\.parquet cannot be read: date value out of range"):
        read(tmp_path, "bivlc")
    columns = {"image_0": [png()], "image_1": [png()], "caption_0": ["a"], "caption_1": ["b"], "made": times}
    pq.write_table(pa.table(columns), tmp_path / "pairs.parquet")
    with pytest.raises(ValueError, match=r"pairs\.parquet cannot be read: date value out of range"):
        list(read_any(tmp_path / "pairs.parquet"))


def test_a_column_that_comes_twice_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    bivlc_of(tmp_path, [{}])
    path = tmp_path / "bivlc/test.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("caption", pa.array(["b"])), path)
    with pytest.raises(ValueError, match="column 'caption' comes twice"):
        read(tmp_path, "bivlc")


def test_a_table_that_unpacks_to_too_much_is_refused_while_it_is_read(tmp_path, monkeypatch):
    """A text that the file stores once and names in each row."""
    reader = bivlc_of(tmp_path, [{"caption": "x" * 20_000}] * 300)
    assert len(reader().rows) == 300
    assert (tmp_path / "bivlc/test.parquet").stat().st_size < 50_000
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "200000")
    with pytest.raises(ValueError, match=r"test\.parquet unpacks to more than [\d,]+ bytes; WARY_FILES_MAX_BYTES"):
        reader()


def test_few_rows_are_read_at_once_where_one_may_be_long(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    bivlc_of(tmp_path, [{"caption": "x" * 20_000}] * 300)
    path = tmp_path / "bivlc/test.parquet"
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "200000")
    with pyarrow.parquet.ParquetFile(path) as file:
        assert max(batch.nbytes for batch in batches(file, path)) <= 200_000


def test_texts_of_an_arrow_file_that_lie_outside_of_it_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "vismin").mkdir()
    row = {"id": "x1", "image_0": png(), "text_0": "a" * 999, "image_1": png(), "text_1": "b", "category": "counting"}
    path = tmp_path / "vismin/data.arrow"
    table = pa.Table.from_pylist([row])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    sound = path.read_bytes()
    for begin, end in ((-5, 4), (2_000_000_000, 2_000_000_008), (0, 2_000_000_000), (1_500, 999)):
        path.write_bytes(sound.replace(struct.pack("<ii", 0, 999), struct.pack("<ii", begin, end)))
        with pytest.raises(ValueError, match=r"data\.arrow cannot be read: "):
            read(tmp_path, "vismin")


def test_winoground_and_eqben_go_through_their_readers(tmp_path):
    row = {"id": 0, "image_0": "ex_0_img_0", "image_1": "ex_0_img_1", "caption_0": "a b", "caption_1": "b a",
           "collapsed_tag": "Relation"}  # fmt: skip
    (tmp_path / "winoground").mkdir()
    (tmp_path / "winoground/examples.jsonl").write_text(json.dumps(row) + "\n")
    image(tmp_path, "winoground/images/ex_0_img_0.png", "winoground/images/ex_0_img_1.png")
    (question,) = read(tmp_path, "winoground").rows
    assert (question.subset, question.id) == ("Relation", "0")
    pair = {"image0": "eqbenkubric_attr/a0.png", "image1": "eqbenkubric_attr/a1.png", "caption0": "a", "caption1": "b"}
    dump(tmp_path, "eqben/ann_json_finegrained_eqkubric_attr.json", [pair])
    video = {"v1": [{"image0": "eqbengebc/a0.jpg", "image1": "eqbengebc/a1.jpg", "caption0": "a", "caption1": "b"}]}
    dump(tmp_path, "eqben/ann_json_finegrained_eqgebc.json", video)
    image(tmp_path / "eqben", pair["image0"], pair["image1"], "eqbengebc/a0.jpg", "eqbengebc/a1.jpg")
    assert sorted(row.subset for row in read(tmp_path, "eqben").rows) == ["gebc", "kubric/attribute"]


# Retrieval


def write_coco(root):
    images = []
    for number in range(3):
        name = f"COCO_val2014_{number:012d}.jpg"
        sentences = [{"raw": f"caption {number} {k}", "sentid": 10 * number + k} for k in range(6)]
        images.append({"filepath": "val2014", "filename": name, "split": "test", "cocoid": 100 + number,
                       "sentids": [sentence["sentid"] for sentence in sentences], "sentences": sentences})  # fmt: skip
        image(root, f"coco/val2014/{name}")
    images.append(images[0] | {"split": "train"})
    dump(root, "coco/dataset_coco.json", {"images": images, "dataset": "coco"})


def test_karpathys_coco_with_eccvs_positives(tmp_path):
    write_coco(tmp_path)
    dump(tmp_path, "coco/eccv_image_to_caption.json", {"101": [10, 11, 20]})
    dump(tmp_path, "coco/eccv_caption_to_image.json", {"20": [101, 102]})
    gallery = read_gallery(tmp_path, "coco")
    assert (len(gallery.images), len(gallery.captions)) == (3, 15)
    assert gallery.right["original"][0][1] == [5, 6, 7, 8, 9]
    assert gallery.right["eccv"][0] == {1: [5, 6, 10]}
    assert gallery.right["eccv"][1] == {10: [1, 2]}
    dump(tmp_path, "coco/eccv_image_to_caption.json", {"999": [10]})
    with pytest.raises(ValueError, match="the query '999' is not in the test split"):
        read_gallery(tmp_path, "coco")
    (tmp_path / "coco/val2014/COCO_val2014_000000000001.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="1 of 3 images of coco are missing"):
        read_gallery(tmp_path, "coco")


@pytest.mark.parametrize(("change", "message"), [
    (lambda images: images[1].update(cocoid=100), "cocoid 100 comes twice in the test split"),
    (lambda images: images[1]["sentences"][0].update(sentid=3), "sentid 3 comes twice in the test split"),
    (lambda images: [sentence.pop("sentid") for sentence in images[1]["sentences"]], "sentid 0 comes twice .* missing"),
    (lambda images: images[1].update(filename=images[0]["filename"]), "lists the image 'val2014/COCO_.*' 2 times"),
    (lambda images: images[1].update(sentences=[]), "field 'sentences' is empty"),
])  # fmt: skip
def test_ids_of_a_gallery_stand_for_one_thing_each(tmp_path, change, message):
    write_coco(tmp_path)
    dump(tmp_path, "coco/eccv_image_to_caption.json", {"101": [10, 11, 20]})
    dump(tmp_path, "coco/eccv_caption_to_image.json", {"20": [101, 102]})
    content = json.loads((tmp_path / "coco/dataset_coco.json").read_text())
    change(content["images"])
    dump(tmp_path, "coco/dataset_coco.json", content)
    with pytest.raises(ValueError, match=message):
        read_gallery(tmp_path, "coco")


def test_a_judgement_that_comes_twice_counts_once(tmp_path):
    write_coco(tmp_path)
    dump(tmp_path, "coco/eccv_image_to_caption.json", {"101": [10, 11, 10, 10]})
    dump(tmp_path, "coco/eccv_caption_to_image.json", {"20": [101, 102]})
    assert read_gallery(tmp_path, "coco").right["eccv"][0] == {1: [5, 6]}
    dump(tmp_path, "coco/eccv_image_to_caption.json", {"101": [10], "0101": [11]})
    with pytest.raises(ValueError, match="the query '0101' comes twice"):
        read_gallery(tmp_path, "coco")
    assert [ranks.tolist() for ranks in right_ranks(np.eye(12)[:1], np.eye(12), {0: [0, 0, 3]})] == [[1, 12]]


def test_answers_beyond_the_gallery_are_left_out_and_counted(tmp_path):
    """As in ECCV Caption's own file, where two answers are sixth captions of their images."""
    write_coco(tmp_path)
    dump(tmp_path, "coco/eccv_image_to_caption.json", {"101": [10, 15, 20], "102": [25]})
    dump(tmp_path, "coco/eccv_caption_to_image.json", {"20": [101, 102]})
    gallery = read_gallery(tmp_path, "coco")
    assert gallery.right["eccv"][0] == {1: [5, 10]}
    assert gallery.notes == ("eccv_image_to_caption.json: 2 answers are not in the gallery and left out (15, 25)",)
    for content, message in (
        ({"101": [15]}, "no answer of any query"),
        ({"101": 15}, "should be a list, found 15"),
        ({"a": [10]}, "'a' is no whole number"),
        ([1], "expected a JSON dict, found a list"),
    ):
        dump(tmp_path, "coco/eccv_image_to_caption.json", content)
        with pytest.raises(ValueError, match=message):
            read_gallery(tmp_path, "coco")


def test_blips_lists_and_flickrs_text(tmp_path):
    dump(tmp_path, "flickr30k/flickr30k_test.json", [{"image": "flickr30k-images/1.jpg", "caption": ["a", "b"]}])
    image(tmp_path, "flickr30k/flickr30k-images/1.jpg")
    assert read_gallery(tmp_path, "flickr30k").captions == ("a", "b")
    (tmp_path / "flickr30k/flickr30k_test.json").unlink()
    (tmp_path / "flickr30k/flickr30k_test_karpathy.txt").write_text('image,caption\n1.jpg,"a, b"\n1.jpg,c\n')
    assert read_gallery(tmp_path, "flickr30k").captions == ("a, b", "c")
    with pytest.raises(ValueError, match="neither 'coco' nor 'flickr30k'"):
        read_gallery(tmp_path, "imagenet")


def test_a_limit_takes_from_every_subset(tmp_path):
    write_sugarcrepe(tmp_path)
    assert len({row.subset for row in read(tmp_path, "sugarcrepe", limit=7).rows}) == 7


def test_no_folder_and_no_question(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no folder"):
        Files(tmp_path / "nowhere", "aro")
    from eqben_builder.suites.caption_choice import SUGARCREPE

    for subset in SUGARCREPE:
        dump(tmp_path, f"sugarcrepe/{subset}.json", {})
    with pytest.raises(ValueError, match="holds no question of SugarCrepe"):
        read(tmp_path, "sugarcrepe")
    assert np.all([suite.id == name for name, suite in SUITES.items()])


def write_eqben(root, ending=".png"):
    """The flat public files: AG's rows of three videos, and Kubric's, whose numbers are the same."""
    own, rows = root / "eqben", []
    for video in range(3):
        for pair in range(4):
            names = [f"eqbenag/V{video}.mp4/{side}{pair}" for side in "ab"]
            image(own, *(name + ending for name in names))
            rows.append(
                {f"image{k}": f"{name}.png" for k, name in enumerate(names)} | {"caption0": "a", "caption1": "b"}
            )
    dump(own, "ann_ag.json", rows)
    for aspect in ("loc", "attr"):
        names = [f"eqbenkubric_{aspect}/{k}{side}" for k in range(2) for side in "ab"]
        image(own, *(name + ending for name in names))
        pairs = [{"image0": f"{a}.png", "image1": f"{b}.png", "caption0": "a", "caption1": "b"}
                 for a, b in zip(names[::2], names[1::2], strict=True)]  # fmt: skip
        dump(own, f"eqbenkubric_{aspect}.json", pairs)
    return own


@pytest.mark.parametrize("ending", [".png", ".jpg"])
def test_eqbens_pairs_of_a_video_stand_together_and_the_light_release_is_read(tmp_path, ending):
    own = write_eqben(tmp_path, ending)
    data = read(tmp_path, "eqben")
    clusters = {row.id: row.cluster for row in data.rows}
    assert len(data.rows) == 16
    assert {clusters[f"ann_ag/{k}"] for k in range(4)} == {"ag V0.mp4"}
    assert len(set(clusters.values())) == 3 + 4  # videos, and pairs of Kubric, though all are numbered from 0
    assert videos_of(read_any(own / "ann_ag.json"))[::4] == [f"ag video V{k}.mp4" for k in range(3)]
    assert data.rows[0].images[0].load().shape == (6, 8, 3)
    (own / f"eqbenag/V0.mp4/a0{ending}").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"ann_ag.json, row 0: .* names no image in .*, nor one that ends in .jpg"
    ):
        read(tmp_path, "eqben")


def test_intervals_of_eqben_know_its_videos(tmp_path):
    rng = np.random.default_rng(0)
    rows = [SuiteRow(str(k), "ag", "pairs", (PICTURE, PICTURE), ("a", "b"), f"ag V{k // 20}") for k in range(400)]
    right = np.repeat(rng.random(20) < 0.5, 20)
    values = [np.array([[1.0, 0.0], [0.0, 1.0]]) if hit else np.zeros((2, 2)) for hit in right]
    share = suite_table(SuiteData(SUITES["eqben"], rows, {}, {}, ()), Similarities(values, [None] * 400)).overall.score
    assert share.high - share.low > 0.3  # of 400 questions that were independent: .1


def write_whatsup(root):
    options = [f"A cup {where} a chair" for where in ("left of", "right of", "on", "under")]
    names = [f"{thing}_{place}_chair" for thing in ("cup", "mug") for place in ("left_of", "right_of", "on", "under")]
    rows = [{"image_path": f"data/controlled_images/{name}.jpeg", "caption_options": options} for name in names]
    dump(root, "controlled_images_dataset.json", rows)
    for name in ("controlled_clevr_dataset", "coco_qa_one_obj", "coco_qa_two_obj", "vg_qa_one_obj", "vg_qa_two_obj"):
        dump(root, f"{name}.json", [])
    image(root, *(f"controlled_images/{name}.jpeg" for name in names))


def test_a_set_of_which_a_picture_is_missing_is_no_set(tmp_path):
    root = tmp_path / "whatsup"
    write_whatsup(root)
    everything = read(tmp_path, "whatsup")
    assert not any("sets are left out" in note for note in everything.notes)
    (root / "controlled_images/cup_on_chair.jpeg").unlink()
    for data in (read(tmp_path, "whatsup"), read(tmp_path, "whatsup", limit=7)):
        right = [np.array([[1.0], [0.0], [0.0], [0.0]])] * len(data.rows)
        table = suite_table(data, Similarities(right, [None] * len(data.rows)))
        assert (len(data.rows), table.line("a", "set of four").questions, table.line("a", "pair").questions) == (
            7,
            1,
            3,
        )
        assert "set of four: 1 sets are left out: a question of each is not here" in data.notes
        assert "pair: 1 sets are left out: a question of each is not here" in data.notes
    cut = read(tmp_path, "whatsup", limit=2)
    assert {measure for row in cut.rows for measure in row.sets} == {"pair"}


def test_suites_are_named_or_the_nearest_are(tmp_path):
    write_sugarcrepe(tmp_path)
    assert read_suite("sugarcrepe", tmp_path).suite is SUITES["sugarcrepe"]
    with pytest.raises(KeyError, match="unknown suite 'sugar_crepe'; nearest: sugarcrepe"):
        SUITES["sugar_crepe"]
    with pytest.raises(KeyError, match="unknown suite 'ARO'; nearest: aro"):
        read_suite("ARO", tmp_path)
    assert "nothing" not in SUITES


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("mmvp", "mmvp/Questions.csv"),
        ("svo-probes", "svo-probes/svo_probes.csv"),
        ("vl-checklist", "vl-checklist/corpus/v1/Attribute/vg.yaml"),
    ],
)
def test_a_file_in_other_bytes_is_named(tmp_path, suite, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"Question ID,Type,Statement\n1,Orientation,caf\xe9\n")
    with pytest.raises(ValueError, match=f"{path.name} is no (UTF-8 text|table in UTF-8)"):
        read(tmp_path, suite)


def test_negbench_reads_its_tables(tmp_path):
    row = {"image_path": "/authors/data/coco/images/val2017/7.jpg", "correct_answer": 2, "caption_0": "a dog",
           "caption_1": "a dog, no cat", "caption_2": "no dog", "caption_3": "a cat but no dog",
           "correct_answer_template": "negative"}  # fmt: skip
    (tmp_path / "negbench" / "images").mkdir(parents=True)
    table = tmp_path / "negbench" / "images" / "COCO_val_mcq_llama3.1_rephrased.csv"
    table.write_text(csv_text([row, row | {"correct_answer_template": "hybrid", "correct_answer": "0.0"}]))
    voc = row | {"image_path": "VOC2007/JPEGImages/000001.jpg"}
    (tmp_path / "negbench" / "VOC2007_mcq_llama3.1_rephrased.csv").write_text(csv_text([voc]))
    image(tmp_path, "coco/val2017/7.jpg", "negbench/VOCdevkit/VOC2007/JPEGImages/000001.jpg")
    data = read(tmp_path, "negbench")
    assert [question.subset for question in data.rows] == ["coco/negative", "coco/hybrid", "voc2007/negative"]
    assert [question.captions[0] for question in data.rows] == ["no dog", "a dog", "no dog"]
    assert sorted(data.rows[1].captions) == sorted(data.rows[0].captions)
    similar = Similarities([np.array([[1.0], [0.0], [0.0], [0.0]]), *[np.eye(4)[:, 1:2]] * 2], [None] * 3)
    scored = suite_table(data, similar)
    assert (scored.line("coco").score.value, scored.line("voc2007").score.value) == (0.5, 0.0)
    assert scored.line("coco").score.chance == 0.25
    table.write_text(csv_text([row | {"correct_answer": 4}]))
    with pytest.raises(ValueError, match=r"line 2: field 'correct_answer' is '4', expected 0 to 3"):
        read(tmp_path, "negbench")


def test_imagecode_reads_sets_of_ten(tmp_path):
    descriptions = {
        "open-images-1_2": {"3": " A red bus ", "9": "The bus is gone."},
        "msrvtt-5_shot2": {"0": "A hand."},
    }
    dump(tmp_path, "imagecode/valid_data.json", descriptions)
    for name in descriptions:
        for number in range(10):
            image(tmp_path, f"imagecode/image-sets/{name}/img{number}.jpg", size=(number + 1, 5))
    data = read(tmp_path, "imagecode")
    assert [(question.subset, question.captions) for question in data.rows] == [
        ("static", ("A red bus",)), ("static", ("The bus is gone.",)), ("video", ("A hand.",))
    ]  # fmt: skip
    widths = [[picture.load().shape[1] for picture in question.images] for question in data.rows]
    assert [sizes[0] for sizes in widths] == [4, 10, 1]
    assert all(sorted(sizes) == list(range(1, 11)) for sizes in widths)
    scored = suite_table(data, Similarities([np.eye(10)[:1]] * 3, [None] * 3))
    assert (scored.line("pooled").score.value, scored.line("pooled").score.chance) == (1.0, pytest.approx(0.1))
    (tmp_path / "imagecode/image-sets/msrvtt-5_shot2/img4.jpg").unlink()
    assert dict(read(tmp_path, "imagecode").left_out) == {"video": 1}
    dump(tmp_path, "imagecode/valid_data.json", {"open-images-1_2": {"10": "x"}})
    with pytest.raises(ValueError, match=r"the image '10', expected 0 to 9"):
        read(tmp_path, "imagecode")


def test_what_order_alone_decides_is_told():
    captions = [("a dog on a cat", "a cat on a dog"), ("a red dog", "a blue dog"), ("A b c", "c b a", "b, a c")]
    rows = [SuiteRow(f"{k}", f"s{k > 0}", "captions", (PICTURE,), texts, f"{k}") for k, texts in enumerate(captions)]
    similar = Similarities([np.arange(len(texts), 0, -1.0)[:, None] for texts in captions], [None] * 3)
    scored = suite_table(SuiteData(SUITES["sugarcrepe"], rows, {}, {}, ()), similar)
    first, second, overall = scored.line("sFalse"), scored.line("sTrue"), scored.overall
    assert (first.same_words, first.bag_of_words) == (1, 0.5)
    assert (second.same_words, second.bag_of_words) == (1, pytest.approx((1 + 1 / 3) / 2))
    assert (overall.same_words, overall.bag_of_words) == (2, pytest.approx((0.5 + 1 + 1 / 3) / 3))
    assert "2 of 3 questions have a wrong caption of the same words in another order" in scored.notes[-1]
    assert (scored.line("pooled").same_words, scored.line("pooled").bag_of_words) == (None, None)
    pair = SuiteRow("0", "all", "pairs", (PICTURE, PICTURE), captions[0], "0")
    pairs = suite_table(SuiteData(SUITES["winoground"], [pair], {}, {}, ()), Similarities([np.eye(2)], [None]))
    assert {(line.same_words, line.bag_of_words) for line in (pairs.overall, *pairs.lines)} == {(None, None)}
    plain = suite_table(
        SuiteData(SUITES["sugarcrepe"], rows[1:2], {}, {}, ()), Similarities([similar.values[1]], [None])
    )
    assert not [note for note in plain.notes if "same words" in note]
