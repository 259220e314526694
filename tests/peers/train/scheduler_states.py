"""The next rates of torch's schedulers, which take their state and the optimizer's from checkpoints."""
import json
import sys

import torch
from torch.optim import lr_scheduler as lr

KINDS = {
    "constant": lambda o: lr.ConstantLR(o),
    "linear": lambda o: lr.LinearLR(o),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 1),
    "sgdr": lambda o: lr.CosineAnnealingWarmRestarts(o, 1),
    "step": lambda o: lr.StepLR(o, 1),
    "onecycle": lambda o: lr.OneCycleLR(o, 1.0, 10, cycle_momentum=False),
}


def made(optimizer, kind, warmup):
    if not warmup or kind == "onecycle":
        return KINDS[kind](optimizer)
    parts = [lr.LinearLR(optimizer), *([lr.ConstantLR(optimizer)] if kind == "step" else []), KINDS[kind](optimizer)]
    return lr.SequentialLR(optimizer, parts, list(range(1, len(parts))))


def following(case):
    saved = torch.load(case["path"], weights_only=True)
    groups = saved["optimizer_state_dict"]["param_groups"]
    weights = [[torch.zeros(1, requires_grad=True) for _ in group["params"]] for group in groups]
    optimizer = torch.optim.SGD([{"params": some} for some in weights], lr=1.0)
    scheduler = made(optimizer, case["kind"], case["warmup"])
    optimizer.load_state_dict(saved["optimizer_state_dict"])
    own = saved["hpctrain"] if case["perStep"] else saved
    scheduler.load_state_dict(own["scheduler_per_step" if case["perStep"] else "scheduler_state_dict"])
    assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    found = []
    for _ in range(case["count"]):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return found


json.dump([following(case) for case in json.load(sys.stdin)], sys.stdout)
