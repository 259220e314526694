"""What a real model is to scripts/exported: how it is built, what it takes, and what it is judged by."""
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch
import torch.nn.functional as F


@dataclass
class Case:
    """One model of a library. Shapes are of one sample; a batch comes before them."""

    build: Callable[[], torch.nn.Module]
    # By the names that forward has for them: see `numbers` and its brothers.
    inputs: dict[str, Any]
    # "graph": forward gives its own loss, and `target` is one of its inputs, whose name `labels` is.
    judge: str
    target: Any = None
    labels: str | None = None
    batch: int = 4


def numbers(*shape, scale=1.0):
    return {"kind": "numbers", "shape": shape, "scale": scale}


def whole(below, *shape):
    return {"kind": "whole", "shape": shape, "below": below}


def labels(below, *shape):
    """Classes, of which a third do not count: PyTorch's index for that is -100."""
    return {"kind": "labels", "shape": shape, "below": below}


def mask(length, dtype="int64"):
    """Ones, and zeros at the ends of some samples, as padding is told."""
    return {"kind": "mask", "shape": (length,), "dtype": dtype}


def image(size=64, channels=3):
    return numbers(channels, size, size)


def made(spec, count, random):
    """`count` samples of it, as they lie in a file."""
    shape = (count, *spec["shape"])
    if spec["kind"] == "whole":
        return random.integers(0, spec["below"], shape)
    if spec["kind"] == "labels":
        return np.where(random.random(shape) < 1 / 3, -100, random.integers(0, spec["below"], shape))
    if spec["kind"] == "mask":
        length = spec["shape"][0]
        kept = random.integers(length // 2, length + 1, (count, 1))
        kept[0] = length
        return (np.arange(length)[None] < kept).astype(spec["dtype"])
    return (random.standard_normal(shape) * spec["scale"]).astype("f4")


def predicted(output):
    """What a loss judges of forward's result: the rule of docs/any-model.md."""
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, dict):
        for name in ("logits", "output", "out"):
            if name in output:
                return output[name]
        output = tuple(output.values())
    elif hasattr(output, "__dataclass_fields__"):
        output = tuple(getattr(output, name) for name in output.__dataclass_fields__)
    return next(predicted(each) for each in output if each is not None and not is_number(each))


def is_number(value):
    return isinstance(value, torch.Tensor) and value.ndim == 0


def loss_of(case, output, target):
    if case.judge == "graph":
        return output["loss"] if isinstance(output, dict) else next(each for each in output if is_number(each))
    given = predicted(output)
    if case.judge == "numbers":
        return F.mse_loss(given, target.view(given.shape))
    if case.judge == "tokens":
        return F.cross_entropy(given.reshape(-1, given.size(-1)), target.reshape(-1))
    if case.judge == "maps" and given.shape[2:] != target.shape[1:]:  # as Segformer's own loss does it
        given = F.interpolate(given, size=target.shape[1:], mode="bilinear", align_corners=False)
    return F.cross_entropy(given, target)
