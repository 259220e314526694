"""Trains GPTs as nanoGPT's train.py does: two groups of AdamW by dimensions, warm-up and cosine, clipping; answers losses and weights."""
import json
import math
import os
import struct
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "models"))
from common import show, zoo_models  # noqa: E402


def configure_optimizers(model, weight_decay, learning_rate, betas):
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    decay = [p for p in named.values() if p.dim() >= 2]
    rest = [p for p in named.values() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=True)


def rate(step, c):
    if step < c["warmup"]:
        return c["lr"] * (step + 1) / c["warmup"]
    ratio = (step - c["warmup"]) / (c["steps"] - c["warmup"])
    return c["min_lr"] + (c["lr"] - c["min_lr"]) * 0.5 * (1.0 + math.cos(math.pi * ratio))


def answer(c):
    torch.set_num_threads(1)
    torch.manual_seed(c["seed"])
    model = zoo_models.gpt(c["vocabulary"], c["context"], c["layers"], c["heads"], c["embed"], bias=c["bias"])
    optimizer = configure_optimizers(model, c["weight_decay"], c["lr"], tuple(c["betas"]))
    losses, clipped = [], 0
    for step in range(c["steps"]):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, c)
        torch.manual_seed(1000 + step % c["different"])
        x = torch.randint(0, c["vocabulary"], (c["batch"], c["context"]))
        y = torch.randint(0, c["vocabulary"], (c["batch"], c["context"]))
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x).view(-1, c["vocabulary"]), y.view(-1))
        loss.backward()
        clipped += torch.nn.utils.clip_grad_norm_(model.parameters(), c["clip"]).item() > c["clip"]
        optimizer.step()
        losses.append(struct.pack(">f", loss.item()).hex())
    moments = [show(optimizer.state[p]["exp_avg_sq"]) for p in model.parameters()]
    return {"losses": losses, "clipped": clipped, "moments": moments,
            "weights": [show(t) for t in model.state_dict().values()]}


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
