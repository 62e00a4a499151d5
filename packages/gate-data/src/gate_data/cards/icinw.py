"""The 20 data sets of ELEVATER's image classification suite (ICinW), as metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gate_data.cards.sheet import Hub


@dataclass(frozen=True)
class IcinwSheet:
    """A data set as ELEVATER scores it.

    Args:
        id: ELEVATER's name, which is the benchmark's.
        title: what a reader should see.
        classes: how many.
        sizes: images to train on (ELEVATER's train split alone), and to score.
        metric: ELEVATER's, a name of ``vision_adapters.metrics``.
        folder: of ELEVATER's own copy, which holds its index files.
        index: names of its train and test index files in that folder.
        module: of ``gate_data.originals.icinw``, which reads the data set's own files.
        licence: of the data.
        citation: of the data.
        site: where to get it.
        hub: the copy on the Hugging Face hub that is read: its splits, columns and classes. One that lists a
            validation split is drawn anew from all of its splits, for none of them is ELEVATER's.
        unsure: what is not certain of that copy.
        note: what differs from ELEVATER where its index files are not at hand.
        fit: how pictures become square.
        gigabytes: on disk, about; 0 where that is not known.

    Example:
        >>> ICINW["dtd"].sizes, ICINW["dtd"].several
        ((1880, 1880), False)
    """

    id: str
    title: str
    classes: int
    sizes: tuple[int, int]
    metric: str
    folder: str
    index: tuple[str, str]
    module: str
    licence: str
    citation: str
    site: str
    hub: Hub
    note: str = ""
    fit: Literal["crop", "whole"] = "crop"
    gigabytes: float = 0.0
    unsure: str = ""

    @property
    def several(self) -> bool:
        """Whether an image can have several classes."""
        return self.metric == "map_11point_elevater"


_TEXT = ("train.txt", "test.txt")
_DRAWN = "no split is published with the data: without ELEVATER's index files another one is drawn"
_ORDER = "with other files than ELEVATER's index, the same seed draws another few-shot subset"

_EMOTIONS = ("angry", "disgust", "fear", "happy", "sad", "surprise", "neutral")
"""FER-2013's classes in the order of its own numbers."""


def _tars(name: str, endings: str) -> Hub:
    """One of CLIP_benchmark's copies: tars of pictures and of ``cls`` files, which hold a number.

    The lists of texts beside the tars are as many as they, so that the pattern says which files are meant.
    """
    return Hub(f"clip-benchmark/wds_{name}", image=endings, target="cls", files="{split}/*.tar")


_ALL = (
    IcinwSheet(
        "caltech-101", "Caltech-101", 102, (3060, 6084), "mean_per_class", "caltech_101_20211007", _TEXT, "folders",
        "CC BY 4.0, as the archive states", "Fei-Fei, Fergus and Perona, CVPR Workshop 2004",
        "https://data.caltech.edu/records/mzrjq-6wc02", Hub("mteb/Caltech101"), f"30 of each class train; {_DRAWN}",
        unsure="the copy has the published sizes, and nothing says that its draw is ELEVATER's",
    ),
    IcinwSheet(
        "cifar-10", "CIFAR-10", 10, (50_000, 10_000), "accuracy", "cifar_10_20211007", _TEXT, "arrays",
        "none stated", "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        "https://www.cs.toronto.edu/~kriz/cifar.html", Hub("uoft-cs/cifar10", image="img"), _ORDER,
    ),
    IcinwSheet(
        "cifar-100", "CIFAR-100", 100, (50_000, 10_000), "accuracy", "cifar100_20200721",
        ("train_images.txt", "test_images.txt"), "arrays",
        "none stated", "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        "https://www.cs.toronto.edu/~kriz/cifar.html", Hub("uoft-cs/cifar100", image="img", target="fine_label"),
        f"classes are in ELEVATER's own, shuffled order; {_ORDER}",
    ),
    IcinwSheet(
        "country211", "Country211", 211, (31_650, 21_100), "accuracy", "country211_20210924", _TEXT, "folders",
        "each picture has a Creative Commons licence of its own (YFCC100M)", "Radford et al., CLIP, ICML 2021",
        "https://openaipublic.azureedge.net/clip/data/country211.tgz", _tars("country211", "jpg"), _ORDER,
        unsure="classes are bare numbers, taken to be those of the sorted folders",
    ),
    IcinwSheet(
        "dtd", "Describable Textures", 47, (1880, 1880), "accuracy", "dtd_20211007", _TEXT, "lists",
        "research", "Cimpoi et al., Describing Textures in the Wild, CVPR 2014",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/", Hub("mcimpoi/dtd_split_1"),
        f"the first of ten partitions; {_ORDER}",
    ),
    IcinwSheet(
        "eurosat_clip", "EuroSAT", 10, (5000, 5000), "accuracy", "eurosat_clip_20210930", _TEXT, "folders",
        "MIT", "Helber et al., EuroSAT, JSTARS 2019",
        "https://zenodo.org/records/7711810", Hub("timm/eurosat-rgb", validation="validation"),
        f"500 of each class train and 500 test; {_DRAWN}",
    ),
    IcinwSheet(
        "fer-2013", "Facial Expression Recognition 2013", 7, (28_709, 3589), "accuracy", "fer_2013_20211008", _TEXT,
        "arrays", "competition rules, research", "Goodfellow et al., Challenges in Representation Learning, 2013",
        "https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-challenge",
        Hub("Aaryan333/fer2013_train_publicTest_privateTest", test="privateTest", names=_EMOTIONS),
        f"the private test split; {_ORDER}",
        unsure="classes are bare numbers, taken to be those of the original table",
    ),
    IcinwSheet(
        "fgvc-aircraft-2013b-variants102", "FGVC Aircraft", 100, (3334, 3333), "mean_per_class",
        "fgvc_aircraft_2013b_variants102_20211007", _TEXT, "lists",
        "non-commercial research", "Maji et al., Fine-Grained Visual Classification of Aircraft, 2013",
        "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/", Hub("mteb/FGVCAircraft", target="variant"),
        f"the banner below each picture is cut away; {_ORDER}",
        unsure="its pictures are taken to carry the banner",
    ),
    IcinwSheet(
        "food-101", "Food-101", 101, (75_750, 25_250), "accuracy", "food_101_20211007", _TEXT, "lists",
        "research; pictures belong to Foodspotting", "Bossard et al., Food-101, ECCV 2014",
        "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/", Hub("ethz/food101", test="validation"), _ORDER,
    ),
    IcinwSheet(
        "gtsrb", "German Traffic Signs", 43, (26_640, 12_630), "accuracy", "gtsrb_20210923", _TEXT, "lists",
        "none stated", "Stallkamp et al., Man vs. Computer, Neural Networks 2012",
        "https://benchmark.ini.rub.de/gtsrb_dataset.html", Hub("tanganke/gtsrb"),
        f"trained on the contest's 26,640, not on 39,209; validation can share tracks with training; {_ORDER}",
    ),
    IcinwSheet(
        "hateful-memes", "Hateful Memes", 2, (8500, 500), "roc_auc", "hateful_memes_20211014",
        ("train_meta.json", "test_meta.json"), "lists",
        "Facebook's own agreement; registration", "Kiela et al., The Hateful Memes Challenge, NeurIPS 2020",
        "https://hatefulmemeschallenge.com",
        Hub("neuralcatcher/hateful_memes", image="img", test="dev_seen", files="{split}.jsonl", beside=True),
        f"scored on dev (seen), pictures alone; {_ORDER}",
        unsure="the file of the development set is taken to be named as in the original",
    ),
    IcinwSheet(
        "kitti-distance", "KITTI distance to the nearest vehicle", 4, (6347, 711), "accuracy",
        "kitti_distance_20210923", ("train_meta.json", "test_meta.json"), "lists",
        "CC BY-NC-SA 3.0", "Geiger, Lenz and Urtasun, CVPR 2012; VTAB's rule of labels",
        "https://www.cvlibs.net/datasets/kitti/", _tars("vtab-kitti_closest_vehicle_distance", "png|jpg|webp"),
        f"split by drives; {_ORDER}", "whole",
        unsure="only the test half of its family was seen; classes are bare numbers, taken to be VTAB's, and "
        "so is the split",
    ),
    IcinwSheet(
        "mnist", "MNIST", 10, (60_000, 10_000), "accuracy", "mnist_20211008", _TEXT, "arrays",
        "CC BY-SA 3.0", "LeCun, Bottou, Bengio and Haffner, Proceedings of the IEEE 86, 1998",
        "https://yann.lecun.com/exdb/mnist/", Hub("ylecun/mnist"), _ORDER,
    ),
    IcinwSheet(
        "oxford-flower-102", "Oxford Flowers 102", 102, (1020, 6149), "mean_per_class", "oxford_flower_102_20211007",
        _TEXT, "arrays", "none stated", "Nilsback and Zisserman, ICVGIP 2008",
        "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/", Hub("dpdl-benchmark/oxford_flowers102"), _ORDER,
        unsure="names of classes are taken to be those of TensorFlow's catalogue",
    ),
    IcinwSheet(
        "oxford-iiit-pets", "Oxford-IIIT Pets", 37, (3680, 3669), "mean_per_class", "oxford_iiit_pets_20211007",
        _TEXT, "lists", "CC BY-SA 4.0", "Parkhi et al., Cats and Dogs, CVPR 2012",
        "https://www.robots.ox.ac.uk/~vgg/data/pets/", Hub("timm/oxford-iiit-pet"), _ORDER,
    ),
    IcinwSheet(
        "patch-camelyon", "PatchCamelyon", 2, (262_144, 32_768), "accuracy", "patch_camelyon_20211007", _TEXT, "arrays",
        "CC0", "Veeling et al., Rotation Equivariant CNNs for Digital Pathology, MICCAI 2018",
        "https://zenodo.org/records/2546921", Hub("1aurent/PatchCamelyon"), _ORDER,
    ),
    IcinwSheet(
        "rendered-sst2", "Rendered SST-2", 2, (6920, 1821), "accuracy", "rendered_sst2_20210924", _TEXT, "folders",
        "none stated", "Radford et al., CLIP, ICML 2021; Socher et al., EMNLP 2013",
        "https://openaipublic.azureedge.net/clip/data/rendered-sst2.tgz", Hub("nateraw/rendered-sst2"), _ORDER,
    ),
    IcinwSheet(
        "resisc45_clip", "RESISC45", 45, (3150, 25_200), "accuracy", "resisc45_clip_20210924",
        ("train.json", "test.json"), "folders", "research", "Cheng, Han and Lu, Proceedings of the IEEE 105, 2017",
        "https://gcheng-nwpu.github.io", Hub("timm/resisc45", validation="validation"),
        f"70 of each class train and 560 test; {_DRAWN}",
    ),
    IcinwSheet(
        "stanford-cars", "Stanford Cars", 196, (8144, 8041), "accuracy", "stanford_cars_20211007", _TEXT, "arrays",
        "research", "Krause et al., 3D Object Representations, ICCV Workshop 2013",
        "https://github.com/pytorch/vision/issues/7545", Hub("tanganke/stanford_cars"),
        f"classes are in ELEVATER's alphabetical order, not in that of cars_meta.mat; {_ORDER}",
    ),
    IcinwSheet(
        "voc-2007-classification", "Pascal VOC 2007 classification", 20, (2501, 4952), "map_11point_elevater",
        "voc2007_20211007", ("train_ic.txt", "test_ic.txt"), "lists",
        "research; pictures under Flickr's terms", "Everingham et al., VOC Challenge, IJCV 2010",
        "http://host.robots.ox.ac.uk/pascal/VOC/voc2007/", Hub("mteb/VOC2007", target="classes"),
        f"what is only there as difficult counts as absent, as in ELEVATER's index files; {_ORDER}",
        unsure="classes are taken to be in alphabetical order where the column has no names; whether it counts "
        "difficult objects is not known",
    ),
)  # fmt: skip

ICINW: dict[str, IcinwSheet] = {sheet.id: sheet for sheet in _ALL}
"""Every data set by its benchmark's id, in ELEVATER's order."""
