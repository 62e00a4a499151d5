from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from PIL import Image

from eqben_builder.building import build
from eqben_builder.formats import PairRow, Picture, read_any
from eqben_builder.micro.builder import MicroBuilder
from eqben_builder.scoring import OpenClipEncoder, dual_similarities, fusion_similarities
from eqben_builder.scoring.decoding import decoded_ahead


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("similarity") / "built"
    build(MicroBuilder(size=16), folder, pairs=3)
    return list(read_any(folder))


class Model:
    def __init__(self):
        self.seen = []

    def encode_image(self, images):
        self.seen.append(len(images))
        return np.array([[image[..., 0].mean(), image[..., 1].std(), 1.0] for image in images], np.float32)

    def encode_text(self, captions):
        return np.array([[len(text), text.count("e"), 2.0] for text in captions])


def plain(model, row):
    cosines = []
    for text in (row.caption0, row.caption1):
        (t,) = model.encode_text([text])
        for picture in row.pictures():
            (v,) = model.encode_image([picture.load()])
            cosines.append(sum(t * v) / (sum(t**2) ** 0.5 * sum(v**2) ** 0.5))
    return np.array(cosines).reshape(2, -1)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_cosines_follow_the_plain_definition(rows, batch):
    cosines = dual_similarities(iter(rows), Model(), batch=batch)
    assert cosines.shape == (9, 2, 2)
    for row, s in zip(rows, cosines, strict=True):
        assert np.allclose(s, plain(Model(), row), rtol=1e-6, atol=0)


def test_a_fusion_model_sees_all_four_combinations_once(rows):
    requests = []

    def score(images, captions):
        requests.extend((image.tobytes(), text) for image, text in zip(images, captions, strict=True))
        return [image.mean() - len(text) for image, text in zip(images, captions, strict=True)]

    similarities = fusion_similarities(rows, score, batch=2)
    for row, s in zip(rows, similarities, strict=True):
        for c, text in enumerate((row.caption0, row.caption1)):
            for i, picture in enumerate(row.pictures()):
                assert s[c, i] == pytest.approx(picture.load().mean() - len(text))
    assert len(requests) == len(set(requests)) == 36


def test_foil_rows_give_two_scores(rows):
    foils = [PairRow(row.id, "valse", "", row.image0, None, row.caption0, row.caption1) for row in rows]
    assert np.allclose(dual_similarities(foils, Model()), dual_similarities(rows, Model())[:, :, 0])
    assert fusion_similarities(foils, lambda images, captions: np.arange(len(images))).tolist()[1] == [2, 3]
    with pytest.raises(ValueError, match=r"has 1 images, those before have 2"):
        dual_similarities([*rows[:2], foils[2]], Model(), batch=1)


def test_what_comes_twice_is_encoded_once(rows):
    model = Model()
    twice = [PairRow(f"{k}", "micro", "", rows[0].image0, rows[0].image1, "a", "b") for k in range(5)]
    dual_similarities(twice, model)
    assert model.seen == [2]


def test_wrong_models_are_refused(rows):
    class Wrong(Model):
        def __init__(self, images=None, texts=None):
            super().__init__()
            self.images, self.texts = images, texts

        def encode_image(self, images):
            return super().encode_image(images) if self.images is None else self.images

        def encode_text(self, captions):
            return super().encode_text(captions) if self.texts is None else self.texts

    for model, message in (
        (Wrong(images=np.ones((3, 2))), r"features of 18 images have the shape \(3, 2\)"),
        (Wrong(images=np.zeros((18, 3))), "zero or not finite"),
        (Wrong(images=np.ones((18, 5))), "images have 5 features and captions 3"),
        (Wrong(texts=np.full((18, 3), np.nan)), r"captions"),
    ):
        with pytest.raises(ValueError, match=message):
            dual_similarities(rows, model)
    with pytest.raises(ValueError, match=r"the model gave \(1,\) scores for 36 combinations"):
        fusion_similarities(rows, lambda images, captions: [1.0])
    with pytest.raises(ValueError, match="no pairs"):
        dual_similarities([], Model())
    with pytest.raises(ValueError, match="batch = 0"):
        dual_similarities(rows, Model(), batch=0)


def test_pictures_are_decoded_in_threads_ahead_of_the_model(rows, monkeypatch):
    threads, order = set(), []
    load = Picture.load

    def watched(self):
        threads.add(threading.current_thread().name.partition("_")[0])
        order.append("decoded")
        return load(self)

    monkeypatch.setattr(Picture, "load", watched)

    class Watching(Model):
        def encode_image(self, images):
            if not self.seen:  # the first pair: two more pairs are decoded, whatever the model does meanwhile
                deadline = time.monotonic() + 10
                while order.count("decoded") < 6 and time.monotonic() < deadline:
                    time.sleep(0.001)
                order.append("encoded")
            return super().encode_image(images)

    dual_similarities(rows, Watching(), batch=1)
    assert threads == {"decode"}
    assert order[: order.index("encoded")].count("decoded") == 6  # and no more than these
    broken = PairRow("broken", "micro", "", Picture(content=b"no image"), rows[0].image1, "a", "b")
    with pytest.raises(ValueError, match="an image in memory cannot be decoded"):
        dual_similarities([*rows, broken], Model(), batch=2)


def test_decoded_pictures_come_in_order_and_few_at_once():
    live, most = 0, 0

    class Counted:
        def __init__(self, number):
            self.number = number

        def load(self):
            nonlocal live, most
            live += 1
            most = max(most, live)
            return np.full((1, 1, 3), self.number, np.uint8)

    batches = ((number, [Counted(number)] * 2) for number in range(30))
    for number, images in decoded_ahead(batches, workers=3):
        assert [int(image[0, 0, 0]) for image in images] == [number, number]
        live -= 2
    assert most <= 2 * 3  # the batch that is looked at and two ahead


def test_a_model_of_open_clip_is_wrapped_or_refused_in_one_line(rows):
    torch = pytest.importorskip("torch")
    open_clip = pytest.importorskip("open_clip")
    vision = {"layers": 1, "width": 16, "head_width": 8, "patch_size": 8, "image_size": 16}
    text = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    torch.manual_seed(0)
    model = open_clip.CLIP(embed_dim=8, vision_cfg=vision, text_cfg=text)
    with pytest.raises(TypeError, match=r"encoder: CLIP of open_clip takes tensors, .*OpenClipEncoder\(model"):
        dual_similarities(rows, model)
    preprocess = open_clip.image_transform(16, is_train=False)
    encoder = OpenClipEncoder(model, preprocess, open_clip.tokenize)
    cosines = dual_similarities(rows, encoder, batch=4)
    with torch.no_grad():
        image = model.encode_image(preprocess(Image.fromarray(rows[0].image0.load()))[None], normalize=True)
        text = model.encode_text(open_clip.tokenize([rows[0].caption0]), normalize=True)
    assert cosines[0, 0, 0] == pytest.approx(float(image @ text.T), abs=1e-5)
    assert not model.training


def test_pictures_are_decoded_on_systems_that_do_not_say_which_cores_are_ours(rows, monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity")
    assert dual_similarities(rows[:1], Model()).shape == (1, 2, 2)
