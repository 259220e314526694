"""torch.nn's losses by their own modules: value and gradient as prints; and over the points that are there, as numbers."""
import importlib.util
import os

import torch
from common import made, serve, show


def shaped(t, how):
    return {
        "": lambda: t,
        "shares": lambda: t.softmax(1),
        "logs": lambda: t.log_softmax(1),
        "sigmoid": lambda: t.sigmoid(),
        "positive": lambda: t.exp(),
        "signs": lambda: (t * 2 - 1).float(),
        "numbers": lambda: t.float(),
        "counts": lambda: t.float(),
        "classes": lambda: (t - 1).sort(1, descending=True).values,
    }[how]()


def module(name, options, dtype=None):
    if name == "timm":  # its own file, without the rest of the library
        file = f"{os.environ['HPCTRAIN_REAL_LIBRARIES']}/timm/loss/binary_cross_entropy.py"
        loaded = importlib.util.spec_from_file_location("timm_loss", file)
        timm = importlib.util.module_from_spec(loaded)
        loaded.loader.exec_module(timm)
        return timm.BinaryCrossEntropy(**options)
    tensors = {k: torch.tensor(v, dtype=dtype) if k in ("weight", "pos_weight") else v for k, v in options.items()}
    return getattr(torch.nn, name)(**tensors)


def value(case, output, target):
    name, options = case["torch"], case["options"]
    dtype = torch.float64 if case.get("double") else None
    if name == "GaussianNLLLoss":
        mean, variance = output.chunk(2, 1)
        return module(name, options, dtype)(mean, target, variance)
    if name == "MarginRankingLoss":
        a, b = output.chunk(2, 1)
        return module(name, options, dtype)(a, b, target)
    if case["task"] == "language":
        return module(name, options, dtype)(output.flatten(0, 1), target.flatten())
    return module(name, options, dtype)(output, target)


def answer(case):
    torch.manual_seed(1)
    def wide(t):
        return t.double() if case.get("double") and t.is_floating_point() else t

    raw, target = wide(made(case["output"])), wide(shaped(wide(made(case["target"])), case["target"]["how"]))
    output = shaped(raw, case["output"]["how"]).requires_grad_()
    loss = value(case, output, target)
    loss.backward()
    found = {"loss": show(loss), "gradient": show(output.grad), "value": loss.item(), "gradients": output.grad.flatten().tolist()}
    if case["missing"] and "double" not in case:  # every third point is not there
        there = torch.arange(target.numel()).view_as(target) % 3 != 0
        halves = case["torch"] in ("GaussianNLLLoss", "MarginRankingLoss")
        parts = [part[there] for part in (output.chunk(2, 1) if halves else (output,))]
        joined = torch.cat([part.unsqueeze(1) for part in parts], 1)
        left = value({**case, "task": ""}, joined if halves else parts[0], target[there].unsqueeze(1) if halves else target[there])
        output.grad = None
        left.backward()
        found["left"] = [left.item()] + output.grad.flatten().tolist()
    return found


serve(answer)
