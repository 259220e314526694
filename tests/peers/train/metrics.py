"""The metrics of each case by scikit-learn and numpy, over all samples at once."""
import json
import sys

import numpy as np
from sklearn import metrics as sk


def array(spec):
    return np.array(spec["values"]).reshape(spec["shape"])


def cross_entropy(scores, labels):
    shifted = scores - scores.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -logs[np.arange(len(labels)), labels].mean()


def rows(output, labels):
    """One row of scores per label, for classes in dimension 1 and images of labels too."""
    return np.moveaxis(output, 1, -1).reshape(-1, output.shape[1]), labels.reshape(-1)


def classes(case):
    scores, labels = rows(array(case["output"]), array(case["target"]).astype(int))
    counts = labels != case["ignored"]
    every, scores, labels = range(scores.shape[1]), scores[counts], labels[counts]
    found = {"accuracy": sk.accuracy_score(labels, scores.argmax(1)), "loss": cross_entropy(scores, labels)}
    if scores.shape[1] > 5:
        found["top5"] = sk.top_k_accuracy_score(labels, scores, k=5, labels=every)
    return found


def language(case):
    output, labels = array(case["output"]), array(case["target"]).astype(int).reshape(-1)
    counts = labels != -100
    loss = cross_entropy(output.reshape(-1, output.shape[-1])[counts], labels[counts])
    return {"perplexity": np.exp(loss), "loss": loss}


def numbers(case):
    output, target = array(case["output"]), array(case["target"])
    target = target.reshape(len(target), -1)
    mean = output[:, : target.shape[1]]
    found = {"r2": sk.r2_score(target, mean), "mae": sk.mean_absolute_error(target, mean)}
    if case["loss"] == "l1":
        found["loss"] = found["mae"]
    elif case["loss"] == "gaussian_nll":
        log_variance = output[:, target.shape[1]:]
        found["loss"] = (0.5 * (log_variance + (mean - target) ** 2 / np.exp(log_variance))).mean()
    else:
        found["loss"] = sk.mean_squared_error(target, mean)
    return found


ANSWERS = {"classification": classes, "segmentation": classes, "language": language, "regression": numbers}
json.dump({name: ANSWERS[case["task"]](case) for name, case in json.load(sys.stdin).items()}, sys.stdout, default=float)
