"""Which synthetic stand-in takes the place of each of GATE's data sets."""

from __future__ import annotations

_MADE = {
    "cifar100": "natural:cifar100",
    "food101": "natural:food101",
    "happy": "natural:happy",
    "imagenet1k": "natural:imagenet1k",
    "places365": "natural:places365",
    "acdc": "medical:acdc",
    "chexpert": "medical:chexpert",
    "diabetic": "medical:diabetic",
    "ham10k": "medical:ham10k",
    "clevr": "questions:clevr",
    "clevr-math": "questions:clevr_math",
    "flickr30k": "matching:flickr30k",
    "nycc": "matching:nycc",
    "winoground": "matching:winoground",
    "hmdb51": "actions:hmdb51",
    "kinetics": "actions:kinetics",
    "ucf": "actions:ucf",
    "iwildcam": "actions:iwildcam",
    "aircraft": "few_shot:aircraft",
    "cubirds": "few_shot:cubirds",
    "dtextures": "few_shot:dtextures",
    "fungi": "few_shot:fungi",
    "mini": "few_shot:mini",
    "omniglot": "few_shot:omniglot",
    "vgg": "few_shot:vgg",
    "ade20k": "scenes:ade20k",
    "cityscapes": "scenes:cityscapes",
    "coco-10k": "scenes:coco_10k",
    "coco-164k": "scenes:coco_164k",
    "nyu": "scenes:nyu",
    "pascal": "scenes:pascal",
}
STAND_INS = {name: f"gate_runner.micro.{function}" for name, function in _MADE.items()}
"""``module:name`` of a function from a `gate_data.request.DataRequest` to data, by the data set's id."""
