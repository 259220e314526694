"""Exports models with torch.export and trains the same ones eagerly, 10 steps with the same batches; and loads weights back."""
import json
import os
import struct
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(__file__))
from export_models import MODELS, build, export, made  # noqa: E402


def loss_of(task, output, target):
    if isinstance(output, dict):
        output = output["out"]
    if task == "regression":
        return F.mse_loss(output, target)
    if task == "language":
        return F.cross_entropy(output.reshape(-1, output.size(-1)), target.reshape(-1))
    return F.cross_entropy(output, target)


def train(name, path, steps):
    _, task, x, target = MODELS[name]
    if not os.path.exists(path):
        export(name, path)
    model = build(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    losses, took = [], []
    for step in range(steps):
        torch.manual_seed(1000 + step)
        a, b = made(x), made(target)
        torch.manual_seed(2000 + step)
        began = time.perf_counter()
        loss = loss_of(task, model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter() - began)
        losses.append(struct.pack(">f", loss.item()).hex())
    torch.save(model.state_dict(), path + ".eager.pt")
    model.eval()
    with torch.no_grad():
        torch.manual_seed(3000)
        output = model(made(x))
        output = output["out"] if isinstance(output, dict) else output
    shape = list(output.shape)
    print_of = struct.pack(">f", output.double().sum().float().item()).hex()
    return {"losses": losses, "task": task, "input": x, "target": target, "outputs": shape[-1 if task == "language" else 1],
            "evaluated": print_of, "path": path, "ms": 1000 * sorted(took)[len(took) // 2]}


def load(name, path, eager):
    """Loads weights that were trained elsewhere, strictly; the largest difference to those trained here."""
    model = build(name)
    model.load_state_dict(torch.load(path, weights_only=True), strict=True)
    ours, theirs = model.state_dict(), torch.load(eager, weights_only=True)
    return max((float((ours[k].double() - theirs[k].double()).abs().max()) if ours[k].numel() else 0.0) for k in theirs)


asked = json.load(sys.stdin)
torch.set_num_threads(asked.get("threads", 1))
if asked["what"] == "train":
    answers = []
    for name in asked["names"]:
        began = time.perf_counter()
        answers.append(train(name, f"{asked['folder']}/{name}.pt2", asked["steps"]))
        print(f"{name} {time.perf_counter() - began:.1f} s", file=sys.stderr)
else:
    answers = [load(*case) for case in asked["cases"]]
json.dump({"torch": torch.__version__, "answers": answers}, sys.stdout)
