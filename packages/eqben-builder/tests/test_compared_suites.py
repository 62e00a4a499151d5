"""Suites' readers and scores held to the authors' own rules, on one made-up tree in their layout.

Each reference is the authors' rule, read in their repository and written again here in its slowest form.
"""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from eqben_builder.suites import SUITES, Similarities, gallery_table, read_gallery, read_suite, suite_table


def noise(path, seed, size=(9, 7), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"RGB": 3, "RGBA": 4}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], channels), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "PNG")


def dump(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def drawn(data, seed=0):
    """Random similarities of each question, with ties now and then."""
    rng = np.random.default_rng(seed)
    values = [np.round(rng.standard_normal((len(row.captions), len(row.images))), 1) for row in data.rows]
    return Similarities(values, [None] * len(values))


def test_aro_crops_and_averages_as_its_own_classes(tmp_path):
    rng = np.random.default_rng(0)
    files = {"visual_genome_relation": "relation_name", "visual_genome_attribution": "attributes"}
    rows = {name: [] for name in files}
    for name, field in files.items():
        for k in range(120):
            box = rng.integers(-3, 8, 2).tolist() + rng.integers(1, 9, 2).tolist()
            if k % 5 == 0:
                box = [value + 0.3 * (k % 4) for value in box]
            group = (
                ["on", "near", "in"][k % 3] if name.endswith("relation") else [["red", "big"], ["a", "b"]][k % 6 == 0]
            )
            row = dict(zip(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), box, strict=True))
            captions = {"true_caption": f"t {k}", "false_caption": f"f {k}"}
            rows[name].append(row | captions | {"image_path": f"{k % 7}.jpg", field: group})
        dump(tmp_path / "aro" / f"{name}.json", rows[name])
    for k in range(7):
        noise(tmp_path / f"aro/images/{k}.jpg", k, mode="RGBA" if k == 3 else "RGB")
    data = read_suite(SUITES["aro"], tmp_path)
    official = [row for name in files for row in rows[name]]
    assert [row.captions for row in data.rows] == [(row["true_caption"], row["false_caption"]) for row in official]
    for row, theirs in zip(data.rows, official, strict=True):
        x, y, w, h = (theirs[f"bbox_{side}"] for side in "xywh")
        image = Image.open(tmp_path / "aro/images" / theirs["image_path"]).convert("RGB").crop((x, y, x + w, y + h))
        assert np.array_equal(row.images[0].load(), np.asarray(image))
    similarities = drawn(data)
    # Their scores hold the wrong caption first, and argmax takes the first of equal ones.
    right = np.array([np.argmax(s[::-1, 0]) == 1 for s in similarities.values])
    table = suite_table(data, similarities, resamples=1)
    relations = np.array([row["relation_name"] for row in rows["visual_genome_relation"]])
    assert table.line("vg_relation").score.value == pytest.approx(
        np.mean([right[:120][relations == name].mean() for name in np.unique(relations)])
    )
    attributes = np.array(["_".join(row["attributes"]) for row in rows["visual_genome_attribution"]])
    large = [attributes == name for name in np.unique(attributes) if (attributes == name).sum() >= 25]
    assert len(large) == 1
    assert table.line("vg_attribution").score.value == pytest.approx(right[120:][large[0]].mean())


def test_whatsup_counts_pairs_and_sets_as_controlled_images_does(tmp_path):
    words = {"a": ("left_of", "right_of", "on", "under"), "b": ("left_of", "right_of", "in-front_of", "behind")}
    names = {"a": "controlled_images", "b": "controlled_clevr"}
    for subset, prepositions in words.items():
        rows = []
        for k, text in enumerate(("mug", "book", "cap", "fork", "plate", "bowl")):
            for preposition in prepositions:
                path = f"data/{names[subset]}/{text}_{preposition}_table.jpeg"
                rows.append({"image_path": path, "caption_options": [f"{text} {p}" for p in (preposition, *"xyz")]})
                noise(tmp_path / "whatsup" / path, k)
        dump(tmp_path / f"whatsup/{names[subset]}_dataset.json", rows)
    for name in ("coco_qa_one_obj", "coco_qa_two_obj"):
        dump(tmp_path / f"whatsup/{name}.json", [[139, "a left", "a right"]])
    for name in ("vg_qa_one_obj", "vg_qa_two_obj"):
        dump(tmp_path / f"whatsup/{name}.json", [[2353, "a left", "a right"]])
    noise(tmp_path / "coco/val2017/000000000139.jpg", 1)
    noise(tmp_path / "whatsup/vg_images/2353.jpg", 2)
    data = read_suite(SUITES["whatsup"], tmp_path)
    assert len(data.rows) == 52
    rng = np.random.default_rng(1)
    scores = [np.append(rng.random() + 0.6, rng.random(len(row.captions) - 1))[:, None] for row in data.rows]
    similarities = Similarities(scores, [None] * 52)
    table = suite_table(data, similarities, resamples=1)
    for number, (subset, prepositions) in enumerate(words.items()):
        rows = json.loads((tmp_path / f"whatsup/{names[subset]}_dataset.json").read_text())
        correct = {}
        for row, s in zip(rows, similarities.values[24 * number :], strict=False):
            base = row["image_path"].split("/")[-1]
            key = (base.split("_")[0], base.split("_")[-1][:-5])
            correct.setdefault(key, {})[base.split("_")[1]] = np.argmax(s[:, 0]) == 0
        short = [word.split("_")[0] for word in prepositions]
        pairs = sum(all(c[word] for word in two) for c in correct.values() for two in (short[:2], short[2:]))
        sets = sum(sum(c.values()) == 4 for c in correct.values())
        assert table.line(subset).score.value == pytest.approx(np.mean([list(c.values()) for c in correct.values()]))
        assert table.line(subset, "pair").score.value == pytest.approx(pairs / (len(rows) / 2))
        assert table.line(subset, "set of four").score.value == pytest.approx(sets / (len(rows) / 4))


def test_crepe_crops_and_ranks_as_its_own_script(tmp_path):
    rng = np.random.default_rng(2)
    rows = []
    for k in range(30):
        x, y, w, h = (int(value) for value in (*rng.integers(0, 6, 2), *rng.integers(1, 12, 2)))
        negatives = [f"it's wrong {j}" if j else 'a "wrong" one' for j in range(int(rng.integers(5, 11)))]
        rows.append({"image_id": k % 4, "caption": f"right, {k}", "x": x, "y": y, "width": w, "height": h,
                     "hard_negs": str(negatives)})  # fmt: skip
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    (tmp_path / "crepe").mkdir()
    (tmp_path / "crepe/prod_vg_hard_negs_atom_complexity_4.csv").write_text(
        file.getvalue(), encoding="utf-8", newline=""
    )
    for k in range(4):
        noise(tmp_path / f"visual_genome/VG_100K{'_2' if k % 2 else ''}/{k}.jpg", k)
    data = read_suite(SUITES["crepe"], tmp_path)
    for row, theirs in zip(data.rows, rows, strict=True):
        image = Image.open(row.images[0].path).convert("RGB")
        box = (theirs["x"], theirs["y"], theirs["x"] + theirs["width"], theirs["y"] + theirs["height"])
        assert np.array_equal(row.images[0].load(), np.asarray(image.crop(box)))
        assert row.images[0].path.stem == str(theirs["image_id"])
        assert list(row.captions) == [theirs["caption"], *eval(theirs["hard_negs"])]
    similarities = Similarities(
        [rng.random((len(row.captions), 1)) for row in data.rows], [None] * 30
    )  # no ties: theirs vary
    ranks = np.array([np.flatnonzero(np.argsort(-s[:, 0]) == 0)[0] for s in similarities.values])
    table = suite_table(data, similarities, resamples=1)
    assert table.line("prod/atom/4").score.value == pytest.approx(np.mean(ranks < 1))
    assert table.line("prod/atom/4", "mean rank").score.value == pytest.approx(ranks.mean() + 1)
    for k in (3, 5, 10):
        assert table.line("prod/atom/4", f"R@{k}").score.value == pytest.approx(np.mean(ranks < k))


def test_spec_and_vl_checklist_take_the_keys_that_their_loaders_take(tmp_path):
    for subset in ("existence", "relative_spatial", "absolute_size", "relative_size", "count", "absolute_spatial"):
        for k in range(4):
            noise(tmp_path / f"spec/{subset}/images/{k}.jpg", k)
        images = [f"images/{k}.jpg" for k in range(4)]
        dump(tmp_path / f"spec/{subset}/image2text.json", [{"query": images[1], "keys": ["a", "b", "c"], "label": 2}])
        dump(tmp_path / f"spec/{subset}/text2image.json", [{"query": "b", "keys": images, "label": 1}])
    rows = read_suite(SUITES["spec"], tmp_path).rows
    assert {row.captions for row in rows if row.shape == "captions"} == {("c", "a", "b")}
    shown = {tuple(picture.path.name for picture in row.images) for row in rows if row.shape == "images"}
    assert shown == {("1.jpg", "0.jpg", "2.jpg", "3.jpg")}

    entries = [[f"VG_100K/{k % 3}.jpg", {"POS": [f"p {k}", "other"], "NEG": [f"n {k}", "other"]}] for k in range(1203)]
    dump(tmp_path / "vl-checklist/data/small.json", entries)
    path = tmp_path / "vl-checklist/corpus/v1/Object/Size/small/vg_obj.yaml"
    path.parent.mkdir(parents=True)
    path.write_text('ANNO_PATH: "data/small.json"\nIMG_ROOT: "vg/"\nTYPE: "TUPLE_JSON"\n')
    for k in range(3):
        noise(tmp_path / f"vl-checklist/vg/VG_100K/{k}.jpg", k)
    data = read_suite(SUITES["vl-checklist"], tmp_path)
    assert [row.captions for row in data.rows] == [(e[1]["POS"][0], e[1]["NEG"][0]) for e in entries[: 2000 // 2]]


def test_eccv_caption_scores_are_its_metrics(tmp_path):
    rng = np.random.default_rng(3)
    images = []
    for number in range(12):
        noise(tmp_path / f"coco/val2014/{number}.jpg", number)
        sentences = [{"raw": f"c {number} {k}", "sentid": 10 * number + k} for k in range(5)]
        images.append({"filepath": "val2014", "filename": f"{number}.jpg", "split": "test", "cocoid": 100 + number,
                       "sentids": [], "sentences": sentences})  # fmt: skip
    dump(tmp_path / "coco/dataset_coco.json", {"images": images})
    captions = [10 * number + k for number in range(12) for k in range(5)]
    answers = {
        str(100 + n): [int(caption) for caption in rng.choice(captions, 7, replace=False)] for n in range(0, 12, 2)
    }
    dump(tmp_path / "coco/eccv_image_to_caption.json", answers)
    dump(tmp_path / "coco/eccv_caption_to_image.json", {"10": [101, 104]})
    gallery = read_gallery(tmp_path, "coco")
    queries, texts = rng.standard_normal((12, 8)), rng.standard_normal((60, 8))
    lines = gallery_table(gallery, queries, texts, resamples=1)
    ours = {
        line.measure: line.score.value
        for line in lines
        if (line.judgements, line.direction) == ("eccv", "image to text")
    }
    unit = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (queries, texts)]
    first, precisions, maps = [], [], []
    for key, right in answers.items():
        ranked = [captions[k] for k in np.argsort(-(unit[0][int(key) - 100] @ unit[1].T))]
        precision = [len(set(ranked[:r]) & set(right)) / r for r in range(1, len(right) + 1)]
        first.append(ranked[0] in right)
        precisions.append(precision[-1])
        maps.append(np.mean([p if ranked[r] in right else 0 for r, p in enumerate(precision)]))
    assert ours["R@1"] == pytest.approx(np.mean(first))
    assert ours["R-precision"] == pytest.approx(np.mean(precisions))
    assert ours["mAP@R"] == pytest.approx(np.mean(maps))
