"""The metrics of each case by scikit-learn, torchmetrics and numpy, over all samples at once."""
import json
import sys

import numpy as np
import torch
from sklearn import metrics as sk
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassCalibrationError,
    MulticlassF1Score,
    MulticlassJaccardIndex,
)


def array(spec):
    return np.array(spec["values"], dtype=np.float64).reshape(spec["shape"])


def mask_of(case, shape):
    if case["mask"] is None:
        return np.ones(shape, dtype=bool)
    mask = array(case["mask"]) != 0
    return np.broadcast_to(mask.reshape(mask.shape + (1,) * (len(shape) - mask.ndim)), shape)


def cross_entropy(scores, labels):
    shifted = scores - scores.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -logs[np.arange(len(labels)), labels].mean()


def by_item(output, labels):
    """One row of scores per label, for classes in dimension 1 and images of labels too."""
    return np.moveaxis(output, 1, -1).reshape(-1, output.shape[1]), labels.reshape(-1)


def sized(output, labels):
    """As users of SegFormer bring its scores to their labels."""
    if output.ndim < 3 or output.shape[2:] == labels.shape[1:]:
        return output
    scores = torch.from_numpy(output.astype(np.float32))
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[labels.ndim - 1]
    wide = torch.nn.functional.interpolate(scores, size=labels.shape[1:], mode=mode, align_corners=False)
    return wide.numpy().astype(np.float64)


def classes(case):
    labels = array(case["target"]).astype(int)
    output = sized(array(case["output"]), labels)
    scores, flat = by_item(output, labels)
    counts = (flat != case["ignored"]) & mask_of(case, labels.shape).reshape(-1)
    every, scores, flat = range(scores.shape[1]), scores[counts], flat[counts]
    found = {"accuracy": sk.accuracy_score(flat, scores.argmax(1)), "loss": cross_entropy(scores, flat)}
    if case["task"] == "segmentation":
        found |= overlap(case, output, labels, found["accuracy"])
    else:
        found |= judged(scores, flat, scores.argmax(1))
        if scores.shape[1] > 5:
            found["top5"] = sk.top_k_accuracy_score(flat, scores, k=5, labels=every)
    return found


def judged(scores, labels, predicted):
    """Precision, recall and F1, macro and each class's, by scikit-learn; the calibration error by torchmetrics."""
    seen = sorted(set(labels) | set(predicted))
    each = sk.f1_score(labels, predicted, labels=seen, average=None, zero_division=0)
    found = {f"f1/{k}": value for k, value in zip(seen, each)}
    for name in ("precision", "recall", "f1"):
        found[name] = getattr(sk, f"{name}_score")(labels, predicted, average="macro", zero_division=0)
    count = scores.shape[1]
    chances = torch.from_numpy(scores).softmax(1)
    torch_f1 = MulticlassF1Score(count, average="macro")(torch.from_numpy(predicted), torch.from_numpy(labels)).item()
    assert abs(torch_f1 - found["f1"]) < 1e-6, (torch_f1, found["f1"])
    found["ece"] = MulticlassCalibrationError(count, n_bins=15, norm="l1")(chances, torch.from_numpy(labels)).item()
    return found


def areas(case):
    """AUROC of each class against the others by scikit-learn, which agrees with torchmetrics."""
    labels, output = array(case["target"]).astype(int).reshape(-1), array(case["output"])
    kept = labels != case["ignored"]
    labels, output = labels[kept], output[kept]
    if case["loss"] == "bce":
        return sk.roc_auc_score(labels, output.reshape(-1))
    chances, count = torch.from_numpy(output).softmax(1).numpy(), output.shape[1]
    there = [k for k in range(count) if 0 < (labels == k).sum() < len(labels)]
    area = np.mean([sk.roc_auc_score(labels == k, chances[:, k]) for k in there])
    if len(there) == count:
        other = MulticlassAUROC(count, average="macro")(torch.from_numpy(chances), torch.from_numpy(labels)).item()
        assert abs(area - other) < 1e-6, (area, other)
    return area


def overlap(case, output, labels, accuracy):
    count = output.shape[1]
    gone = -1  # a label of its own for all that does not count
    marked = np.where((labels != case["ignored"]) & mask_of(case, labels.shape), labels, gone)
    predicted, marked = torch.from_numpy(output).argmax(1), torch.from_numpy(marked)
    micro = MulticlassAccuracy(count, average="micro", ignore_index=gone)(predicted, marked).item()
    assert abs(micro - accuracy) < 1e-6, (micro, accuracy)
    each = MulticlassJaccardIndex(count, average="none", ignore_index=gone)(predicted, marked)
    there = torch.stack([(predicted == k)[marked != gone].any() | (marked == k).any() for k in range(count)])
    mean = MulticlassJaccardIndex(count, average="macro", ignore_index=gone)(predicted, marked).item()
    if 0 <= case["ignored"] < count:  # its own class says nothing
        kept = [k for k in range(count) if there[k] and k != case["ignored"]]
        mean = each[kept].mean().item()
    named = {f"iou/{k}": each[k].item() if there[k] else float("nan") for k in range(count)}
    return {"mean_iou": mean, **named}


def two_classes(case):
    logits, labels = array(case["output"]).reshape(-1), array(case["target"]).astype(int).reshape(-1)
    counts = mask_of(case, labels.shape)
    logits, labels = logits[counts], labels[counts]
    loss = (np.logaddexp(0, logits) - labels * logits).mean()
    both = np.stack([np.zeros_like(logits), logits], 1)
    return {"accuracy": sk.accuracy_score(labels, logits > 0), "loss": loss, **judged(both, labels, (logits > 0).astype(int))}


def language(case):
    output, labels = array(case["output"]), array(case["target"]).astype(int).reshape(-1)
    counts = labels != -100
    loss = cross_entropy(output.reshape(-1, output.shape[-1])[counts], labels[counts])
    return {"perplexity": np.exp(loss), "loss": loss}


def numbers(case):
    """Targets side by side as columns, whose rows are samples and pixels: scikit-learn's one shape of targets."""
    output, target = array(case["output"]), array(case["target"])
    target = target.reshape(len(target), -1) if target.ndim == 1 else target
    counts = mask_of(case, target.shape)
    count = target.shape[1]
    middle = count if case["loss"] == "quantile" else 0
    mean = output[:, middle : middle + count].reshape(target.shape)
    columns = lambda x: np.moveaxis(x, 1, -1).reshape(-1, count)
    each = []
    for k in range(count):
        kept = columns(counts)[:, k]
        t, y = columns(target)[kept, k], columns(mean)[kept, k]
        each.append({
            "r2": sk.r2_score(t, y),
            "mae": sk.mean_absolute_error(t, y),
            "rmse": sk.root_mean_squared_error(t, y),
            "bias": (y - t).mean(),
        })
        if case["loss"] == "quantile":
            for i, q in enumerate((0.1, 0.5, 0.9)):
                each[-1][f"below_q{q}"] = (t <= columns(output[:, i * count : (i + 1) * count])[kept, k]).mean()
        if case["loss"] == "gaussian_nll":
            variance = np.exp(columns(output[:, count:].reshape(target.shape))[kept, k])
            error = np.abs(y - t)
            each[-1] |= {f"within_{n}_sigma": (error <= n * np.sqrt(variance)).mean() for n in (1, 2)}
            each[-1]["spread"] = np.sqrt(variance.mean())
    found = {name: np.mean([one[name] for one in each]) for name in each[0]}
    if case["mask"] is None:  # the same as scikit-learn's own mean over targets
        assert np.isclose(found["r2"], sk.r2_score(columns(target), columns(mean)), rtol=1e-9)
        assert np.isclose(found["rmse"], sk.root_mean_squared_error(columns(target), columns(mean)), rtol=1e-9)
    if count > 1:
        for k, one in enumerate(each):
            found |= {f"{name}/{k}": value for name, value in one.items()}
    if case["loss"] == "l1":
        found["loss"] = np.abs(target - mean).mean()
    elif case["loss"] == "quantile":
        q = np.array([0.1, 0.5, 0.9])[:, None]
        e = target[:, None] - output.reshape(len(output), 3, count)
        found["loss"] = np.maximum(q * e, (q - 1) * e).mean()
    elif case["loss"] == "gaussian_nll":
        log_variance = output[:, count:]
        found["loss"] = (0.5 * (log_variance + (mean - target) ** 2 / np.exp(log_variance))).mean()
    else:
        found["loss"] = ((target - mean) ** 2).mean()
    return found


def answer(case):
    if case.get("areas"):
        return {"auroc": areas(case)}
    if case["loss"] == "bce":
        return two_classes(case)
    return ANSWERS[case["task"]](case)


def plain(value):
    """JSON has no NaN."""
    value = float(value)
    return value if np.isfinite(value) else str(value)


ANSWERS = {"classification": classes, "segmentation": classes, "language": language, "regression": numbers}
json.dump(
    {name: {key: plain(value) for key, value in answer(case).items()} for name, case in json.load(sys.stdin).items()},
    sys.stdout,
)
