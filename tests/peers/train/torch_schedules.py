"""Rates and momenta of schedulers of torch.optim, step by step, from the first step and from checkpoints on."""
import json
import sys

import torch
from torch.optim import lr_scheduler as lr


def optimizer_of(case, groups=1):
    weights = [{"params": [torch.zeros(1, requires_grad=True)]} for _ in range(groups)]
    if case.get("adam"):
        return torch.optim.AdamW(weights, lr=case["lr"])
    return torch.optim.SGD(weights, lr=case["lr"], momentum=0.9)


def made(case, optimizer):
    names = {name: getattr(lr, name) for name in lr.__all__}
    return eval(case["torch"], {**names, "o": optimizer, "math": __import__("math")})


def momentum_of(group):
    return group["betas"][0] if "betas" in group else group["momentum"]


def follow(case, optimizer, scheduler, count, metrics):
    found = []
    for i in range(count):
        group = optimizer.param_groups[0]
        found.append([group["lr"], momentum_of(group)])
        optimizer.step()
        if isinstance(scheduler, lr.ReduceLROnPlateau):
            scheduler.step(metrics[i])
        else:
            scheduler.step()
    return found


def answer(case):
    optimizer = optimizer_of(case)
    if "path" not in case:
        return follow(case, optimizer, made(case, optimizer), case["count"], case.get("metrics", []))
    saved = torch.load(case["path"], weights_only=True)
    optimizer = optimizer_of(case)
    scheduler = made(case, optimizer)
    state = saved["optimizer_state_dict"]
    state["param_groups"][0]["params"] = [0]
    optimizer.load_state_dict({"state": {}, "param_groups": state["param_groups"]})
    scheduler.load_state_dict(saved["scheduler_state_dict"])
    return follow(case, optimizer, scheduler, case["count"], case.get("metrics", []))


import warnings

warnings.filterwarnings("ignore")
json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
