"""Learning rates of torch.optim.lr_scheduler, step by step."""
import json
import sys

import torch
from torch.optim import lr_scheduler as lr


def after_warmup(optimizer, s):
    span = s["total"] - s["warmup"]
    if s["type"] == "constant":
        return lr.ConstantLR(optimizer, factor=1.0)
    if s["type"] == "linear":
        return lr.LinearLR(optimizer, 1.0, s["min"] / s["peak"], total_iters=span)
    if s["type"] == "sgdr":
        return lr.CosineAnnealingWarmRestarts(optimizer, s["restart"]["every"], s["restart"]["factor"], eta_min=s["min"])
    if s["type"] == "cosine":
        return lr.CosineAnnealingLR(optimizer, span, eta_min=s["min"])
    return lr.StepLR(optimizer, s["every"], s["gamma"])


def schedule(optimizer, s):
    if s["type"] == "onecycle":
        # PyTorch counts its last step as the end; a schedule here ends after it, like PyTorch's cosine.
        up = s["warmup"] or round(0.3 * s["total"])
        steps = s["total"] + 1
        return lr.OneCycleLR(
            optimizer, s["peak"], steps, pct_start=(up + 1) / steps, cycle_momentum=False,
            final_div_factor=s["peak"] / 25 / s["min"],
        )
    if s["warmup"] == 0:
        return after_warmup(optimizer, s)
    warmup = lr.LinearLR(optimizer, 1 / s["warmup"], 1.0, total_iters=s["warmup"] - 1)
    return lr.SequentialLR(optimizer, [warmup, after_warmup(optimizer, s)], [s["warmup"]])


def rates(s):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=s["peak"])
    following = schedule(optimizer, s)
    found = []
    for _ in range(s["total"]):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        following.step()
    return found


json.dump([rates(s) for s in json.load(sys.stdin)], sys.stdout)
