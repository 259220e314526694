"""What --metrics asks for, by torchmetrics, scikit-learn and scipy, over all samples at once."""
import json
import sys

import numpy as np
import torch
import torchmetrics.classification as tm
import torchmetrics.regression as tr
from scipy import stats
from sklearn import metrics as sk


def array(spec):
    return np.array(spec["values"], dtype=np.float64).reshape(spec["shape"])


def of_classes(case):
    scores, labels = array(case["output"]), array(case["target"]).astype(int)
    if scores.ndim == 3 and case["task"] == "language":
        scores = scores.transpose(0, 2, 1)
    classes = scores.shape[1]
    scores, labels = np.moveaxis(scores, 1, -1).reshape(-1, classes), labels.reshape(-1)
    seen = labels != case["ignored"]
    scores, labels = scores[seen], labels[seen]
    predicted, given, truth = scores.argmax(1), torch.tensor(scores).softmax(1), torch.tensor(labels)
    present = np.union1d(labels, predicted)
    areas = present[present != case["ignored"]]
    found = {"accuracy": sk.accuracy_score(labels, predicted), "balanced_accuracy": sk.balanced_accuracy_score(labels, predicted)}
    for k in (k for k in (2, 3) if k < classes):
        found[f"top{k}"] = tm.MulticlassAccuracy(classes, top_k=k, average="micro")(given, truth)
    if case["task"] == "language":
        return {key: found[key] for key in ("accuracy", "top2", "top3")}
    for average, end in (("macro", ""), ("micro", "_micro"), ("weighted", "_weighted")):
        p, r, f, _ = sk.precision_recall_fscore_support(labels, predicted, labels=present, average=average, zero_division=0)
        found |= {f"precision{end}": p, f"recall{end}": r, f"f1{end}": f}
        found[f"dice{end}"] = sk.f1_score(labels, predicted, labels=areas, average=average, zero_division=0)
        found[f"f2{end}"] = sk.fbeta_score(labels, predicted, beta=2, labels=present, average=average, zero_division=0)
        found[f"mean_iou{end}"] = sk.jaccard_score(labels, predicted, labels=areas, average=average, zero_division=0)
    found["specificity_micro"] = tm.MulticlassSpecificity(classes, average="micro")(given, truth)
    each = tm.MulticlassSpecificity(classes, average="none")(given.double(), truth).numpy()
    found["specificity"] = each[present].mean()
    for bins, end in ((15, ""), (10, "_10")):
        found[f"ece{end}"] = tm.MulticlassCalibrationError(classes, n_bins=bins)(given, truth)
    found["kappa"], found["mcc"] = sk.cohen_kappa_score(labels, predicted), sk.matthews_corrcoef(labels, predicted)
    np.testing.assert_allclose(tm.MulticlassCohenKappa(classes)(given, truth), found["kappa"], atol=1e-6)
    np.testing.assert_allclose(tm.MulticlassMatthewsCorrCoef(classes)(given, truth), found["mcc"], atol=1e-6)
    if case["task"] == "classification":
        shares, counts = given.numpy(), np.bincount(labels, minlength=classes)
        judged = [1] if classes == 2 else [k for k in range(classes) if 0 < counts[k] < len(labels)]
        for key, of in (("auroc", sk.roc_auc_score), ("average_precision", sk.average_precision_score)):
            curves = np.array([of(labels == k, shares[:, k]) for k in judged])
            found[key], found[f"{key}_weighted"] = curves.mean(), np.average(curves, weights=counts[judged])
        if classes > 2 and len(judged) == classes:
            theirs = tm.MulticlassAveragePrecision(classes)(given, truth)
            np.testing.assert_allclose(theirs, found["average_precision"], atol=1e-5)
    return found


def of_numbers(case):
    output, target = array(case["output"]), array(case["target"])
    found = {}
    for k in range(target.shape[1]):
        a, b = output[:, k].reshape(-1), target[:, k].reshape(-1)
        there = ~np.isnan(b)
        a, b = a[there], b[there]
        x, y = torch.tensor(a), torch.tensor(b)
        one = {
            "mse": sk.mean_squared_error(b, a),
            "mae": sk.mean_absolute_error(b, a),
            "rmse": sk.root_mean_squared_error(b, a),
            "r2": sk.r2_score(b, a),
            "explained_variance": sk.explained_variance_score(b, a),
            "bias": (a - b).mean(),
            "mape": tr.MeanAbsolutePercentageError().double()(x, y),
            "smape": tr.SymmetricMeanAbsolutePercentageError().double()(x, y),
            "pearson": stats.pearsonr(a, b).statistic,
            "spearman": stats.spearmanr(a, b).statistic,
        }
        for name, value in one.items():
            found.setdefault(name, []).append(float(value))
    each = {f"{name}/{k}": value for name, values in found.items() for k, value in enumerate(values)}
    return {name: np.mean(values) for name, values in found.items()} | (each if target.shape[1] > 1 else {})


def plain(value):
    value = float(value)
    return value if np.isfinite(value) else str(value)


def answer(case):
    return of_numbers(case) if case["task"] == "regression" else of_classes(case)


json.dump(
    {name: {key: plain(value) for key, value in answer(case).items()} for name, case in json.load(sys.stdin).items()},
    sys.stdout,
)
