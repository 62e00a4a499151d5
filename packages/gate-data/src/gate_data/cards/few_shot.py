"""Few-shot classification."""

from __future__ import annotations

from gate_data.cards.sheet import Hub, Sheet

SHEETS = (
    Sheet(
        id="aircraft",
        title="FGVC-Aircraft few-shot",
        task="few-shot",
        metrics=("accuracy",),
        local="gate_data.originals.aircraft:ORIGINALS",
        classes=100,
        sizes=(8_500, 1_500),
        licence="non-commercial research",
        citation="Maji et al., Fine-Grained Visual Classification of Aircraft, 2013",
        site="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
        hub=Hub("GATE-engine/aircraft_bbcrop", validation="validation"),
        gate=(
            "5-49 ways with up to 44 shots, classes drawn with replacement; the same class can be in an episode "
            "twice under one label; 5 to 9 ways; cut to the boxes"
        ),
        ours="Meta-Dataset's classes, cut to the boxes",
        reason="ours is 5 ways and 1 shot; `--setting protocol=gate` draws GATE's ways and shots",
        gigabytes=2.8,
    ),
    Sheet(
        id="cubirds",
        title="CUB-200 fine-grained few-shot",
        task="few-shot",
        metrics=("accuracy",),
        local="gate_data.originals.cubirds:ORIGINALS",
        classes=200,
        sizes=(9_975, 1_770),
        licence="images for research and education",
        citation="Wah et al., Caltech-UCSD Birds-200-2011, CNS-TR-2011-001",
        site="https://www.vision.caltech.edu/datasets/cub_200_2011/",
        hub=Hub("GATE-engine/cubirds200_bbcrop", validation="validation"),
        gate=(
            "5-49 ways with up to 44 shots, classes drawn with replacement; the same class can be in an episode "
            "twice under one label; cut to the boxes, without 43 pictures of ImageNet"
        ),
        ours="the same classes, boxes and pictures",
        reason="ours is 5 ways and 1 shot; `--setting protocol=gate` draws GATE's ways and shots",
        gigabytes=1.2,
    ),
    Sheet(
        id="dtextures",
        title="Describable Textures few-shot",
        task="few-shot",
        metrics=("accuracy",),
        local="gate_data.originals.dtextures:ORIGINALS",
        classes=47,
        sizes=(4_800, 840),
        licence="research",
        citation="Cimpoi et al., Describing Textures in the Wild, CVPR 2014",
        site="https://www.robots.ox.ac.uk/~vgg/data/dtd/",
        hub=Hub("GATE-engine/describable_textures", validation="validation"),
        gate=(
            "5-49 ways with up to 44 shots, classes drawn with replacement; the same class can be in an episode "
            "twice under one label"
        ),
        ours="Meta-Dataset's classes",
        reason="ours is 5 ways and 1 shot; `--setting protocol=gate` draws GATE's ways and shots",
        gigabytes=0.6,
    ),
    Sheet(
        id="fungi",
        title="FGVCx Fungi few-shot",
        task="few-shot",
        metrics=("accuracy",),
        local="gate_data.originals.fungi:ORIGINALS",
        classes=1_394,
        sizes=(89_760, 0),
        drawn=True,
        licence="non-commercial research and education, no redistribution",
        citation="FGVCx Fungi Classification Challenge, 2018",
        site="https://github.com/visipedia/fgvcx_fungi_comp",
        hub=Hub("GATE-engine/fungi", validation="validation"),
        gate=(
            "5-49 ways with up to 44 shots, classes drawn with replacement; the same class can be in an episode "
            "twice under one label"
        ),
        ours="Meta-Dataset's classes; labels are the ids, for several categories share a name",
        reason="ours is 5 ways and 1 shot; `--setting protocol=gate` draws GATE's ways and shots",
        gigabytes=13,
    ),
    Sheet(
        id="mini",
        title="Mini-ImageNet few-shot",
        task="few-shot",
        metrics=("accuracy",),
        local="gate_data.originals.mini:ORIGINALS",
        classes=100,
        sizes=(48_000, 12_000),
        licence="ImageNet's: for research and education",
        citation="Vinyals et al., Matching Networks, NeurIPS 2016; Ravi and Larochelle, ICLR 2017",
        site="https://github.com/twitter-research/meta-learning-lstm",
        hub=Hub("GATE-engine/mini_imagenet", validation="validation"),
        gate=(
            "5-49 ways with up to 44 shots, classes drawn with replacement; the same class can be in an episode "
            "twice under one label; pictures of 84 px"
        ),
        ours="the classes of Ravi and Larochelle",
        reason="ours is 5 ways and 1 shot; `--setting protocol=gate` draws GATE's ways and shots",
        gigabytes=3,
    ),
    Sheet(
        id="omniglot",
        title="Omniglot few-shot characters",
        task="few-shot",
        metrics=("accuracy",),
        local="gate_data.omniglot:ORIGINALS",
        classes=1_623,
        sizes=(19_280, 13_180),
        licence="MIT",
        citation="Lake, Salakhutdinov and Tenenbaum, Science 350, 2015",
        site="https://github.com/brendenlake/omniglot",
        no_hub="GATE-engine/omniglot has no alphabets, by which our splits are made",
        gate=(
            "5-49 ways with up to 44 shots, classes drawn with replacement; the same class can be in an episode "
            "twice under one label; 2 to 49 ways; the first 1,200 characters train, whatever the alphabet"
        ),
        ours="no alphabet is in two splits; inverted, as Meta-Dataset does",
        reason="ours is 5 ways and 1 shot; `--setting protocol=gate` draws GATE's ways and shots",
        gigabytes=0.02,
    ),
    Sheet(
        id="vgg",
        title="VGG Flowers few-shot",
        task="few-shot",
        metrics=("accuracy",),
        local="gate_data.originals.vgg:ORIGINALS",
        classes=102,
        sizes=(8_189, 0),
        drawn=True,
        licence="research",
        citation="Nilsback and Zisserman, Automated Flower Classification, ICVGIP 2008",
        site="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        hub=Hub("GATE-engine/vggflowers", validation="validation"),
        gate=(
            "5-49 ways with up to 44 shots, classes drawn with replacement; the same class can be in an episode "
            "twice under one label"
        ),
        ours="Meta-Dataset's classes",
        reason="ours is 5 ways and 1 shot; `--setting protocol=gate` draws GATE's ways and shots",
        gigabytes=0.35,
    ),
)
