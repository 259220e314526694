"""Trains the zoo's models in plain PyTorch, 20 steps with fresh batches; answers every loss's bits and the last weights."""
import json
import os
import struct
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "models"))
from common import made, show, zoo_models  # noqa: E402

OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, fused=True),
}


def loss_of(task, output, target):
    if task == "regression":
        return F.mse_loss(output, target)
    if task == "language":
        return F.cross_entropy(output.view(-1, output.size(-1)), target.view(-1))
    return F.cross_entropy(output, target)


def answer(case):
    torch.set_num_threads(case["threads"])
    torch.manual_seed(1)
    model = getattr(zoo_models, case["peer"])(**case["sizes"])
    optimizer = OPTIMIZERS[case["optimizer"]](model.parameters())
    losses = []
    for step in range(case["steps"]):
        torch.manual_seed(1000 + step)
        x, target = made(case["input"]), made(case["target"])
        torch.manual_seed(2000 + step)  # what dropout draws from
        loss = loss_of(case["task"], model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(struct.pack(">f", loss.item()).hex())
    return {"losses": losses, "weights": [show(t) for t in model.state_dict().values()]}


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
