"""Which synthetic stand-in takes the place of each of GATE's data sets."""

from __future__ import annotations

_MADE = {
    "cifar100": ("natural:cifar100", 17.0),
    "food101": ("natural:food101", 11.0),
    "happy": ("natural:happy", 8.0),
    "imagenet1k": ("natural:imagenet1k", 22.0),
    "places365": ("natural:places365", 8.0),
    "acdc": ("medical:acdc", 55.0),
    "chexpert": ("medical:chexpert", 6.0),
    "diabetic": ("medical:diabetic", 6.0),
    "ham10k": ("medical:ham10k", 6.0),
    "clevr": ("questions:clevr", 102.0),
    "clevr-math": ("questions:clevr_math", 99.0),
    "flickr30k": ("matching:flickr30k", 14.0),
    "nycc": ("matching:nycc", 15.0),
    "winoground": ("matching:winoground", 5.0),
    "hmdb51": ("actions:hmdb51", 33.0),
    "kinetics": ("actions:kinetics", 30.0),
    "ucf": ("actions:ucf", 30.0),
    "iwildcam": ("actions:iwildcam", 23.0),
    "aircraft": ("few_shot:aircraft", 5.0),
    "cubirds": ("few_shot:cubirds", 12.0),
    "dtextures": ("few_shot:dtextures", 6.0),
    "fungi": ("few_shot:fungi", 6.0),
    "mini": ("few_shot:mini", 12.0),
    "omniglot": ("few_shot:omniglot", 5.0),
    "vgg": ("few_shot:vgg", 6.0),
    "ade20k": ("scenes:ade20k", 63.0),
    "cityscapes": ("scenes:cityscapes", 48.0),
    "coco-10k": ("scenes:coco_10k", 56.0),
    "coco-164k": ("scenes:coco_164k", 59.0),
    "nyu": ("scenes:nyu", 55.0),
    "pascal": ("scenes:pascal", 63.0),
}
STAND_INS = {name: f"gate_runner.micro.{function}" for name, (function, _) in _MADE.items()}
"""``module:name`` of a function from a `gate_data.request.DataRequest` to data, by the data set's id."""
COSTS = {name: seconds for name, (_, seconds) in _MADE.items()}
"""`Benchmark.cost` of each, by the data set's id: one after another, nothing in the feature cache."""
