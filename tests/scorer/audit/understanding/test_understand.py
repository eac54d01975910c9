"""Tables in the shapes that papers release, understood: roles, sets, labels, units."""

import numpy as np
import pytest

from scorer.audit.shapes import AuditError, Role, Scale
from scorer.audit.understanding import parse_map
from tests.scorer.audit.understanding.tables import finding_codes, ids, loaded, roles, softmax, understood

RNG = np.random.default_rng(11)
N = 240
Y = RNG.integers(0, 2, N)
P = np.clip(0.25 + 0.5 * Y + RNG.normal(0, 0.2, N), 0.001, 0.999)
Z = RNG.normal(0, 1, (N, 4))
C = RNG.integers(0, 4, N)
Z[np.arange(N), C] += 2.0
Q = softmax(Z)


def test_one_probability_a_row() -> None:
    evidence = understood(loaded({"image_id": ids(N), "patient_id": np.arange(N) // 2, "y_true": Y, "prob": P}))
    (one,) = evidence.sets
    assert (one.kind, one.classes, one.scale.scale) == ("binary", ("0", "1"), Scale.PROBABILITY)
    assert one.y is not None
    np.testing.assert_array_equal(one.y, Y)
    assert one.p is not None
    np.testing.assert_array_equal(one.p[:, 0], P)
    assert (evidence.unit, evidence.cluster, evidence.ordered, evidence.has_splits) == (
        "image",
        "patient",
        False,
        False,
    )
    assert one.cluster is not None
    assert len(evidence.names.cluster) == N // 2
    assert [evidence.names.cluster[int(code)] for code in one.cluster] == [str(i // 2) for i in range(N)]
    assert roles(evidence)[Role.SCORE] == ("prob",)
    assert all(said.why for said in evidence.mapping["preds.csv"])


def test_missing_labels_are_missing_and_never_class_0() -> None:
    y = np.array([str(value) for value in Y], dtype=object)
    y[:10], y[10:15], y[15:20], y[20:22] = "", "-100", "?", "-1"
    evidence = understood(loaded({"id": ids(N), "label": y, "score": P}))
    (one,) = evidence.sets
    assert one.y is not None
    assert (one.y[:22] == -1).all()
    np.testing.assert_array_equal(one.y[22:], Y[22:])
    found = {code.code: code for code in evidence.findings}
    assert found["labels-missing"].count == 20
    assert found["labels-uncertain"].count == 2
    flag = ["False"] * 7 + ["True"] * (N - 7)
    (one,) = understood(loaded({"id": ids(N), "label": Y, "has_label": flag, "score": P})).sets
    assert one.y is not None
    assert (one.y[:7] == -1).all()
    assert (one.y[7:] == Y[7:]).all()


def test_a_target_of_fractions_is_a_score_and_hard_labels_called_prob_are_no_probability() -> None:
    (one,) = understood(loaded({"image_name": ids(N), "target": P})).sets
    assert (one.y, one.columns, one.scale.usable) == (None, ("target",), True)
    (one,) = understood(loaded({"id": ids(N), "label": Y, "prob": (P > 0.5).astype(int)})).sets
    assert (one.scale.scale, one.p) == (Scale.HARD_LABELS, None)


@pytest.mark.parametrize(
    "names",
    [
        ("p_0", "p_1", "p_2", "p_3"),
        ("prob_mel", "prob_nv", "prob_bcc", "prob_ak"),
        ("MEL", "NV", "BCC", "AK"),
        ("softmax0", "softmax1", "softmax2", "softmax3"),
    ],
)
def test_one_column_a_class(names: tuple[str, ...]) -> None:
    words = ("mel", "nv", "bcc", "ak")
    for label in (C, np.array(words)[C]):
        if label is not C and names[0] in ("p_0", "softmax0"):
            continue
        table = {"image": ids(N, "im{}.png"), "label": label} | dict(zip(names, Q.T, strict=True))
        (one,) = understood(loaded(table)).sets
        assert (one.kind, one.columns, one.scale.scale) == ("multiclass", names, Scale.PROBABILITIES)
        assert one.y is not None
        np.testing.assert_array_equal(one.y, C)


def test_labels_from_one_are_said_and_labels_without_a_zero_are_doubted() -> None:
    table = {"id": ids(N)} | {name: Q[:, k] for k, name in enumerate("abcd")}
    evidence = understood(loaded(table | {"label": C + 1}))
    assert evidence.sets[0].y is not None
    np.testing.assert_array_equal(evidence.sets[0].y, C)
    assert "labels-from-one" in finding_codes(evidence)
    few = np.where(C == 0, 1, C)
    evidence = understood(loaded(table | {"label": few}))
    assert evidence.sets[0].y is not None
    np.testing.assert_array_equal(evidence.sets[0].y, few)
    assert "labels-base" in finding_codes(evidence)
    evidence = understood(loaded(table | {"label": np.array(["x", "y", "z", "w"])[C]}))
    assert evidence.sets[0].y is None
    assert "labels-not-understood" in finding_codes(evidence)
    evidence = understood(
        loaded(table | {"label": np.array(["x", "y", "z", "w"])[C]}), wishes=parse_map([], classes=("x", "y", "z", "w"))
    )
    assert evidence.sets[0].y is not None
    np.testing.assert_array_equal(evidence.sets[0].y, C)


@pytest.mark.parametrize(
    ("words", "positive"),
    [(("benign", "malignant"), "malignant"), (("No", "Yes"), "Yes"), (("normal", "pneumonia"), "pneumonia"),
     (("-1", "1"), "1"), (("healthy", "MI"), "MI"), (("apple", "pear"), None), (("1", "2"), None)],
)  # fmt: skip
def test_the_positive_word_is_chosen_only_where_it_is_plain(words: tuple[str, str], positive: str | None) -> None:
    evidence = understood(loaded({"id": ids(N), "label": np.array(words)[Y], "score": P}))
    (one,) = evidence.sets
    if positive is None:
        assert one.y is None
        assert "labels-not-understood" in finding_codes(evidence)
        one = understood(
            loaded({"id": ids(N), "label": np.array(words)[Y], "score": P}), wishes=parse_map([], classes=words)
        ).sets[0]
    assert one.y is not None
    np.testing.assert_array_equal(one.y, Y)
    assert one.classes[1] == (positive or words[1])


def test_models_side_by_side_and_the_breast_as_unit() -> None:
    table = {"case_ID": np.arange(N) // 2, "side": ["L", "R"] * (N // 2), "label": Y.astype(float)}
    table |= {f"Reader{k:02d}_POM": np.round(np.clip(P + RNG.normal(0, 0.1, N), 0, 1), 2) for k in range(5)}
    evidence = understood(loaded(table | {"AI_net_POM": P}, "mammography.csv"))
    assert len(evidence.sets) == 6
    assert {one.kind for one in evidence.sets} == {"binary"}
    assert (evidence.unit, evidence.cluster) == ("breast", "case")
    assert evidence.sets[5].model == "AI_net_POM"
    assert evidence.sets[0].unit is not None
    assert len(np.unique(evidence.sets[0].unit)) == N
    assert len(evidence.names.cluster) == N // 2


def test_two_columns_of_a_binary_task() -> None:
    (one,) = understood(loaded({"id": ids(N), "label": Y, "p_0": 1 - P, "p_1": P})).sets
    assert (one.kind, one.columns, one.scale.scale) == ("binary", ("p_1",), Scale.PROBABILITY)
    assert one.p is not None
    assert one.p.shape == one.scores.shape == (N, 1)
    np.testing.assert_array_equal(one.p[:, 0], P)
    assert one.y is not None
    np.testing.assert_array_equal(one.y, Y)


def test_findings_with_labels_that_list_them_in_another_file() -> None:
    names = ("Mass", "Nodule", "Pleural_Thickening")
    truth = RNG.integers(0, 2, (N, 3))
    listed = ["|".join(n for n, t in zip(names, row, strict=True) if t) or "No Finding" for row in truth]
    images = ids(N, "{:08d}_000.png")
    labels = loaded(
        {"Image Index": images[::-1], "Finding Labels": listed[::-1], "Patient ID": np.arange(N) // 3}, "l.csv"
    )
    scores = {f"prob_{name}": RNG.beta(1, 9, N) for name in (*names, "Hernia")}
    evidence = understood(loaded({"Image Index": images, **scores}), labels=labels)
    (one,) = evidence.sets
    assert (one.kind, one.classes, one.scale.scale) == ("multilabel", (*names, "Hernia"), Scale.PROBABILITY)
    assert one.y is not None
    np.testing.assert_array_equal(one.y[:, :3], truth)
    assert (one.y[:, 3] == -1).all()
    assert "findings-without-labels" in finding_codes(evidence)
    assert not evidence.ordered
    assert evidence.cluster == "patient"


def test_findings_with_label_columns_of_the_same_names() -> None:
    truth = RNG.integers(0, 2, (N, 2))
    marks = {"gt_Mass": np.where(np.arange(N) < 5, -1, truth[:, 0]), "gt_Edema": truth[:, 1]}
    evidence = understood(
        loaded({"id": ids(N), "prob_Edema": P, "prob_Mass": P[::-1]} | marks), wishes=parse_map([], kind="multilabel")
    )
    (one,) = evidence.sets
    assert one.classes == ("Edema", "Mass")
    assert one.y is not None
    np.testing.assert_array_equal(one.y[:, 0], truth[:, 1])
    np.testing.assert_array_equal(one.y[5:, 1], truth[5:, 0])
    assert (one.y[:5, 1] == -1).all()


def test_tasks_in_long_form_are_told_apart_by_what_makes_ids_unique() -> None:
    patients = [f"TCGA-{site}-{i:04d}" for i, site in enumerate(["OR", "PK", "KL"] * 20)]
    table = {
        "cohort": ["ACC"] * 60 + ["KICH"] * 30, "biomarker": ["TP53"] * 30 + ["MSI"] * 30 + ["TP53"] * 30,
        "patient_id": patients[:30] * 2 + patients[30:], "y_true": Y[:90], "oof_proba": P[:90],
        "fold": np.arange(90) % 5,
    }  # fmt: skip
    evidence = understood(loaded(table))
    assert sorted(one.task for one in evidence.sets) == ["ACC, MSI", "ACC, TP53", "KICH, TP53"]
    assert evidence.names.site == ("KL", "OR", "PK")
    assert (evidence.unit, evidence.cluster) == ("patient", "patient")
    assert "ids-repeated" not in finding_codes(evidence)
    assert evidence.sets[0].fold is not None
    total = sum(len(one.scores) for one in evidence.sets)
    assert total == 90


def test_runs_in_long_form() -> None:
    n = 60
    table = {
        "image_id": ids(n) * 4, "model": (["vit"] * n + ["cnn"] * n) * 2, "seed": [0] * (2 * n) + [1] * (2 * n),
        "calibrator": ["none"] * (4 * n), "p_1": RNG.random(4 * n), "label": np.tile(Y[:n], 4),
    }  # fmt: skip
    evidence = understood(loaded(table))
    assert [(one.model, one.seed) for one in evidence.sets] == [("cnn", "0"), ("cnn", "1"), ("vit", "0"), ("vit", "1")]
    assert len({one.name for one in evidence.sets}) == 4
    first = evidence.sets[2]
    np.testing.assert_array_equal(first.scores[:, 0], np.asarray(table["p_1"])[:n])
    assert first.unit is not None
    assert len(np.unique(first.unit)) == n


def test_one_row_a_class_is_turned() -> None:
    table = {
        "id": np.repeat(ids(N), 4), "class": ["a", "b", "c", "d"] * N, "score": Q.ravel(),
        "y_true": np.repeat(np.array(list("abcd"))[C], 4),
    }  # fmt: skip
    (one,) = understood(loaded(table)).sets
    assert (one.kind, one.classes) == ("multiclass", ("a", "b", "c", "d"))
    np.testing.assert_allclose(one.scores, Q)
    assert one.y is not None
    np.testing.assert_array_equal(one.y, C)


def test_several_files_are_several_models_of_the_same_units() -> None:
    first = loaded({"id": ids(N), "prob": P, "label": Y}, "a/preds.csv")
    second = loaded({"id": ids(N)[::-1], "prob": P[::-1], "label": Y[::-1]}, "b/preds.csv")
    evidence = understood(first, second)
    assert [one.name for one in evidence.sets] == ["a/preds", "b/preds"]
    left, right = evidence.sets
    assert left.unit is not None
    assert right.unit is not None
    np.testing.assert_array_equal(left.unit, right.unit[::-1])


def test_predicted_classes_beside_and_instead_of_probabilities() -> None:
    table = {"id": ids(N), "label": Y, "y_pred": (P > 0.5).astype(int)}
    evidence = understood(loaded(table | {"prob": P}))
    assert [one.columns for one in evidence.sets] == [("prob",)]
    assert roles(evidence)[Role.PREDICTED] == ("y_pred",)
    (one,) = understood(loaded(table)).sets
    assert (one.scale.scale, one.scale.usable, one.p) == (Scale.HARD_LABELS, False, None)


def test_confidence_of_the_predicted_class_is_about_its_being_right() -> None:
    top = Q.argmax(axis=1)
    (one,) = understood(loaded({"id": ids(N), "label": C, "pred": top, "confidence": Q.max(axis=1)})).sets
    assert (one.scale.scale, one.scale.usable, one.classes) == (Scale.TOP_ONE, True, ("wrong", "right"))
    assert one.y is not None
    np.testing.assert_array_equal(one.y, (top == C).astype(int))
    (one,) = understood(loaded({"id": ids(N), "pred": top, "confidence": Q.max(axis=1)})).sets
    assert (one.scale.usable, one.y) == (False, None)


def test_text_alone_has_no_confidence() -> None:
    table = {
        "id": ids(40),
        "question": ["what is seen? " * 9] * 40,
        "response": ["The answer is B, I think. " * 5] * 40,
    }
    (one,) = understood(loaded(table)).sets
    assert (one.scale.scale, one.kind) == (Scale.NONE, None)
    assert "text only" in one.scale.why


def test_splits_in_a_file_and_sites_in_a_column() -> None:
    part = ["train"] * 100 + ["test"] * (N - 100)
    table = loaded({"id": ids(N), "label": Y, "prob": P, "hospital": ["A", "B"] * (N // 2)})
    evidence = understood(table, splits=loaded({"id": ids(N)[::-1], "split": part[::-1]}, "s.csv"))
    (one,) = evidence.sets
    assert evidence.has_splits
    assert one.split is not None
    assert [evidence.names.split[int(code)] for code in one.split] == part
    assert evidence.names.site == ("A", "B")


def test_ids_that_repeat_are_reported() -> None:
    evidence = understood(loaded({"id": [*ids(N - 2), "im0000", "im0001"], "label": Y, "prob": P}))
    (found,) = [one for one in evidence.findings if one.code == "ids-repeated"]
    assert (found.rule, found.count, found.samples) == ("MVC405", 4, ("im0000", "im0001"))


def test_patients_from_names_and_columns_that_are_no_patients() -> None:
    evidence = understood(loaded({"image": [f"{i // 2}_{side}" for i in range(N) for side in ("left", "right")][:N],
                                  "label": Y, "prob": P}))  # fmt: skip
    assert (evidence.unit, evidence.cluster) == ("eye", "patient")
    assert "patients-by-pattern" in finding_codes(evidence)
    table = {"image_id": ids(N), "label": Y, "prob": P}
    evidence = understood(loaded(table | {"patient": [f"p{i}" for i in range(N)]}))
    assert "patient-unique" in finding_codes(evidence)
    evidence = understood(loaded(table | {"patient": ["unknown"] * N}))
    assert evidence.sets[0].cluster is None
    assert "patient-is-a-word" in finding_codes(evidence)
    assert "personal-data" in finding_codes(understood(loaded(table | {"date_of_birth": ["1950-01-01"] * N})))


def test_what_the_user_maps_goes_first() -> None:
    table = loaded({"a": ids(N), "b": P, "c": Y, "d": RNG.random(N)})
    (one,) = understood(table, wishes=parse_map(["unit=a", "score=b", "label=c"], unit="lesion")).sets
    assert one.columns == ("b",)
    assert one.y is not None
    with pytest.raises(AuditError, match="no file has a column 'prbo'"):
        understood(table, wishes=parse_map(["score=prbo"]))
    with pytest.raises(AuditError, match="no column is a score"):
        understood(loaded({"id": ids(9), "name": ids(9)}))


def test_several_models_of_several_classes_stand_side_by_side() -> None:
    other = softmax(Z * 0.5)
    for names in (("vit_{}", "cnn_{}"), ("{}_vit", "{}_cnn"), ("vit_p{}", "cnn_p{}")):
        words = ("mel", "nv", "bcc", "ak") if "p{}" not in names[0] else tuple("0123")
        table: dict[str, object] = {"id": ids(N), "label": np.array(words)[C]}
        for form, scores in zip(names, (Q, other), strict=True):
            table |= {form.format(word): scores[:, k] for k, word in enumerate(words)}
        evidence = understood(loaded(table))
        assert [one.kind for one in evidence.sets] == ["multiclass"] * 2
        assert evidence.sets[1].y is not None
        np.testing.assert_array_equal(evidence.sets[1].y, C)
        np.testing.assert_array_equal(evidence.sets[1].scores, other)


def test_hashed_ids_are_ids_and_no_text() -> None:
    hashes = [f"{i // 2:064x}" for i in range(N)]
    evidence = understood(loaded({"image_id": [f"{i:064x}" for i in range(N)], "patient_id": hashes, "y": Y, "p_1": P}))
    assert (evidence.unit, evidence.cluster, len(evidence.names.cluster)) == ("image", "patient", N // 2)


def test_rows_of_one_id_with_different_labels_are_told() -> None:
    table = {"id": ids(N) * 2, "model": ["a"] * N + ["b"] * N, "p": np.concatenate([P, P]), "y": [*Y, 1 - Y[0], *Y[1:]]}
    (found,) = [one for one in understood(loaded(table)).findings if one.code == "labels-differ"]
    assert (found.count, found.samples) == (1, ("im0000",))


def test_a_split_in_the_name_of_a_file_is_no_split_list() -> None:
    evidence = understood(loaded({"id": ids(N), "p": P, "y": Y}, facts={"split": "test"}))
    assert not evidence.has_splits
    assert evidence.names.split == ("test",)


def test_many_sets_joined_by_order_share_one_finding_a_level() -> None:
    columns = {f"reader{k}_x": np.clip(P + RNG.normal(0, 0.05, N), 0.001, 0.999) for k in range(5)}
    evidence = understood(loaded({**columns, "odd_x": RNG.random(N)}), labels=loaded({"label": Y}, "labels.csv"))
    found = [one for one in evidence.findings if one.code == "order-not-verified"]
    assert sorted((one.level.value, one.count) for one in found) == [("note", 5), ("warning", 1)]


def test_a_score_named_after_the_negative_class_is_the_probability_of_it() -> None:
    (one,) = understood(
        loaded({"id": ids(N), "label": np.array(["benign", "malignant"])[Y], "prob_benign": 1 - P})
    ).sets
    assert one.classes == ("malignant", "benign")
    assert one.y is not None
    np.testing.assert_array_equal(one.y, 1 - Y)
    evidence = understood(loaded({"id": ids(N), "label": Y, "p_0": 1 - P}))
    assert evidence.sets[0].y is None
    assert "labels-not-understood" in finding_codes(evidence)


def test_of_two_classes_the_positive_word_is_the_event_wherever_it_stands() -> None:
    table = {"id": ids(N), "label": np.array(["benign", "malignant"])[Y], "prob_malignant": P, "prob_benign": 1 - P}
    for label in (table["label"], Y):
        (one,) = understood(loaded(table | {"label": label})).sets
        assert (one.columns, one.classes[1]) == (("prob_malignant",), "malignant")
        assert one.p is not None
        np.testing.assert_array_equal(one.p[:, 0], P)
        assert one.y is not None
        np.testing.assert_array_equal(one.y, Y)
    (one,) = understood(loaded({"id": ids(N), "label": table["label"], "p_0": 1 - P, "p_1": P})).sets
    assert one.y is not None
    np.testing.assert_array_equal(one.y, Y)


def test_numbered_readers_are_no_classes_and_a_lab_value_is_no_score() -> None:
    readers = {f"r{k}": np.clip(P + RNG.normal(0, 0.1, N), 0.001, 0.999) for k in range(3)}
    evidence = understood(loaded({"id": ids(N), "label": Y, **readers}))
    assert [one.kind for one in evidence.sets] == ["binary"] * 3
    table = {"id": ids(N), "label": C, **{f"p_{k}": Q[:, k] for k in range(4)}, "quality": RNG.random(N)}
    evidence = understood(loaded(table))
    assert [one.kind for one in evidence.sets] == ["multiclass"]
    assert roles(evidence)[Role.OTHER] == ("quality",)
