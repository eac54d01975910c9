"""Released files, understood: what each is known to hold."""

import numpy as np

from scorer.audit.reading import read
from scorer.audit.shapes import Evidence, Scale
from scorer.audit.understanding import Wishes, understand
from scorer.metrics import auroc
from tests.splits.datasets.real import released


def of(*names: tuple[str, str], labels: tuple[str, str] | None = None) -> Evidence:
    tables = [one for name in names for one in read(released(*name))]
    truth = None if labels is None else read(released(*labels))[0]
    return understand(tables, truth, None, Wishes())


def test_rare_cancers_are_33_tasks() -> None:
    evidence = of(("hayden-farquhar+PanRareWSI", "results/oof_predictions.csv"))
    assert len(evidence.sets) == 33
    assert sum(len(one.scores) for one in evidence.sets) == 2_146
    assert len(evidence.names.cluster) == 524
    assert len(evidence.names.site) == 66


def test_readers_and_models_share_one_label_a_breast() -> None:
    evidence = of(("nyukat+mammography_metarepository", "reader_study/results.derived.csv"))
    assert len(evidence.sets) == 21
    assert (evidence.unit, evidence.cluster, len(evidence.names.cluster)) == ("breast", "case", 720)
    worst = [one for one in evidence.findings if one.code == "chance-level"]
    assert "end2end_ddsm" in worst[0].title


def test_chest_findings_take_their_labels_from_another_file() -> None:
    evidence = of(
        ("jrzech+reproduce-chexnet", "pretrained/preds.csv"),
        labels=("mlmed+torchxrayvision", "torchxrayvision/data/Data_Entry_2017_v2020.csv.gz"),
    )
    (one,) = evidence.sets
    assert (one.kind, len(one.classes), len(evidence.names.cluster)) == ("multilabel", 14, 6_187)
    assert one.p is not None
    assert one.y is not None
    k = one.classes.index("Hernia")
    assert round(auroc(one.p[:, k], one.y[:, k]).value, 4) == 0.9175
    assert int(one.y[:, k].sum()) == 42


def test_means_of_logarithms_are_refused() -> None:
    (one,) = of(("JeffreyDF+kaggle_diabetic_retinopathy", "preds/2015_07_14_072437_6_log_mean.npy")).sets
    assert (one.scale.scale, one.scale.usable, one.p) == (Scale.LOG_UNNORMALISED, False, None)
    assert "0.109 to 27.6" in one.scale.why
    assert "28 rows" in one.scale.why


def test_scores_without_truth_and_patients_in_names() -> None:
    (one,) = of(("Masdevallia+3rd-place-kaggle-siim-isic-melanoma-classification", "ensemble/ensemble.csv")).sets
    assert (one.y, one.scale.usable, one.columns) == (None, True, ("target",))
    evidence = of(("alexander-rakhlin+Return-to-Diabetic-Retinopathy-Detection", "images/kaggle_double_score.csv"))
    assert (evidence.unit, evidence.cluster, len(evidence.names.cluster)) == ("eye", "patient", 3_513)


def test_answers_in_words_have_no_confidence() -> None:
    evidence = of(("MMMU-Benchmark+MMMU", "mmmu/example_outputs/qwen_vl/Public_Health/output.json"))
    assert {one.scale.scale for one in evidence.sets} == {Scale.NONE}
    evidence = of(("MMMU-Benchmark+MMMU", "mmmu-pro/output/gpt-4o_vision_direct.jsonl"))
    assert not any(one.scale.usable for one in evidence.sets)
    assert np.isnan(evidence.sets[0].scores).all()
