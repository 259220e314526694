"""Trains the mlp with torch.optim: from its seed, or from a checkpoint that hpctrain wrote."""
import hashlib
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

NAMES = {torch.float32: "f32", torch.float64: "f64"}


def show(t):
    digest = hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()
    return f"{NAMES[t.dtype]}[{', '.join(map(str, t.shape))}] {digest}"


def answer(case):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(7, 37), nn.ReLU(), nn.Linear(37, 37), nn.ReLU(), nn.Linear(37, 1))
    torch.manual_seed(2)
    x, y = torch.randn(32, 7), torch.randn(32, 1)
    if case.get("double"):
        model, x, y = model.double(), x.double(), y.double()
    make = getattr(torch.optim, case["type"])
    if "resume" in case:
        # As a user would: nothing of the optimizer's settings is repeated here, all of it is in the file.
        optimizer = make(model.parameters(), lr=1)
        file = torch.load(case["resume"], weights_only=True)
        model.load_state_dict(file["model_state_dict"])
        optimizer.load_state_dict(file["optimizer_state_dict"])
    else:
        fused = {"fused": True} if case["type"] in ("Adam", "AdamW", "SGD") else {}
        optimizer = make(model.parameters(), lr=1, **{**fused, **case["options"]})
    losses = []
    for rate in case["rates"]:
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        optimizer.param_groups[0].update(lr=rate, **(case["moved"][len(losses)] if "moved" in case else {}))
        losses.append(optimizer.step(closure).item())
    if "save" in case:
        torch.save({"epoch": 0, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, case["save"])
    return {"losses": losses, "weights": [show(t) for t in model.state_dict().values()]}


torch.set_num_threads(1)
json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
