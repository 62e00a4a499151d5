"""Medical pictures."""

from __future__ import annotations

from gate_data.cards.sheet import Sheet

SHEETS = (
    Sheet(
        id="acdc",
        title="ACDC cardiac segmentation",
        task="medical-segmentation",
        metrics=("dice", "miou", "miou_foreground"),
        local="gate_data.originals.acdc:ORIGINALS",
        classes=4,
        sizes=(200, 100),
        licence="free for research after registration, not for redistribution",
        citation="Bernard et al., IEEE Transactions on Medical Imaging 37, 2018",
        site="https://www.creatis.insa-lyon.fr/Challenge/acdc/",
        no_hub="GATE-engine/automated_cardiac_diagnosis_competition.ACDC holds volumes as nested lists",
        gate=(
            "grey values from least to most over both frames; a patient is one sample; mIoU without what is "
            "truly background; dice is a smoothed soft one of each slice, with the background as a class"
        ),
        ours=(
            "grey values from the 1st to the 99th percentile of a frame; a volume is one sample; mIoU of all pixels, "
            "dice of the three parts of the heart over all volumes; `miou_foreground` is GATE's mIoU"
        ),
        reason="their dice is another number; table 3's mIoU can stand beside `miou_foreground`, of the same patients",
        gigabytes=2.3,
    ),
    Sheet(
        id="chexpert",
        title="CheXpert findings",
        task="multi-label",
        metrics=("roc_auc", "average_precision", "brier"),
        local="gate_data.originals.chexpert:ORIGINALS",
        classes=5,
        sizes=(223_414, 234),
        licence="Stanford's research-use agreement",
        citation="Irvin et al., CheXpert, AAAI 2019",
        site="https://stanfordmlgroup.github.io/competitions/chexpert/",
        no_hub="what GATE read, alkzar90/NIH-Chest-X-ray-dataset, is another data set, and read by code of its own",
        gate="NIH ChestX-ray14 under CheXpert's label numbers: cardiomegaly, mass, nodule, pneumothorax, edema",
        ours="CheXpert's five competition findings; 5 % of the patients validate",
        reason="their rows are another data set: see `chestxray14`",
        gigabytes=11,
    ),
    Sheet(
        id="diabetic",
        title="Diabetic retinopathy grades",
        task="multi-label",
        metrics=("roc_auc", "average_precision", "brier"),
        local="gate_data.originals.diabetic:ORIGINALS",
        classes=5,
        sizes=(35_126, 53_576),
        licence="competition rules",
        citation="EyePACS, Kaggle Diabetic Retinopathy Detection, 2015",
        site="https://www.kaggle.com/c/diabetic-retinopathy-detection",
        gate="80 / 5 / 15 % of the pictures, so that one eye of a patient trains and the other tests",
        ours="official test where its labels are there, else 15 % of the patients",
        reason="their split leaks patients",
        gigabytes=88,
    ),
    Sheet(
        id="ham10k",
        title="HAM10000 skin lesions",
        task="multi-label",
        metrics=("roc_auc", "average_precision", "brier"),
        local="gate_data.originals.ham10k:ORIGINALS",
        classes=7,
        sizes=(8_512, 1_503),
        drawn=True,
        licence="CC BY-NC 4.0",
        citation="Tschandl, Rosendahl and Kittler, The HAM10000 Dataset, Scientific Data 5, 2018",
        site="https://doi.org/10.7910/DVN/DBW86T",
        gate="80 / 5 / 15 % of the pictures, so that one lesion trains and tests",
        ours="80 / 5 / 15 % of the lesions",
        reason="their split leaks lesions",
        gigabytes=3,
    ),
)
