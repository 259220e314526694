"""Exports models whose forward uses torch.vmap, undecomposed, and trains the same ones eagerly with the same batches."""
import json
import struct
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim, export, save
from torch.func import functional_call, vmap


class Mapped(nn.Module):
    """A function on the samples x of [N, 6], and a head."""

    def __init__(self, f):
        super().__init__()
        torch.manual_seed(0)
        self.f = f
        self.first, self.m = nn.Linear(6, 6), nn.Parameter(torch.randn(6, 6))
        self.members, self.shift = nn.Parameter(torch.randn(5, 6, 6) * 0.3), nn.Parameter(torch.randn(5, 6))
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
        self.scores, self.head = nn.Embedding(7, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.f(self, self.first(x)))


def in_place(a):
    b = a * 2
    b.add_(a.sin())
    b += 0.5
    b[0] = 3.0
    return b.relu_()


def heads(q, k, v):
    return torch.softmax(q @ k.T / 3.0, -1) @ v


def each_loss(row, label):
    return F.cross_entropy(row[None], label[None], label_smoothing=0.1) + F.mse_loss(row, row.tanh())


FUNCTIONS = {
    "linear": lambda s, x: vmap(lambda row: F.linear(row, s.m) * 2 + row.dot(row))(x),
    "shared weight": lambda s, x: vmap(lambda row, m: row @ m, in_dims=(0, None), out_dims=1)(x, s.m).t(),
    "columns": lambda s, x: vmap(lambda c: (c * c).cumsum(0) + c.mean() + c.max(), in_dims=1, out_dims=-1)(x),
    "nested": lambda s, x: vmap(vmap(lambda a, b: (a * b).sum() - b.std(), in_dims=(None, 0)), in_dims=(0, None))(x, s.m),
    "nested, other dims": lambda s, x: vmap(vmap(lambda a: a.softmax(0) * a.sum()), 1, 1)(x.reshape(-1, 2, 3)).reshape(-1, 6),
    "network": lambda s, x: vmap(lambda a: torch.softmax(s.net(a), 0).sum(0, keepdim=True) + s.net(a))(x),
    "ensemble": lambda s, x: vmap(lambda w, b: torch.tanh(x @ w + b))(s.members, s.shift).mean(0),
    "functional": lambda s, x: vmap(lambda w, a: functional_call(s.net[0], {"weight": w, "bias": w[:, 0]}, (a,)), (0, None))(s.members, x).sum(0),
    "attention": lambda s, x: vmap(heads, (1, 1, 1), 1)(*((x @ w).view(-1, 3, 2) for w in s.members[:3])).reshape(-1, 6),
    "several results": lambda s, x: sum(vmap(lambda a: (a * 2, a.sort().values.flip(0), torch.ones(6) * 3, s.m[0]))(x)),
    "same draws": lambda s, x: vmap(lambda a: F.dropout(a, 0.5, s.training) + torch.randn(6) * 0.1, randomness="same")(x),
    "in place": lambda s, x: vmap(in_place)(x),
    "chosen": lambda s, x: vmap(lambda a: torch.where(a > 0, s.scores(a.argmax()), a.flip(0)).gather(0, a.argsort()))(x),
    "windows": lambda s, x: vmap(lambda a: F.conv1d(a[None, None], s.m[:1, :3][None], padding=1)[0, 0] + F.max_pool1d(a[None], 3, 1, 1)[0] + F.layer_norm(a, (6,)))(x),
    "losses": lambda s, x: x * vmap(each_loss)(x, x.detach().argmax(1))[:, None],
    "halves": lambda s, x: vmap(lambda a: half(s, a))(x),
}


def half(s, a):
    with torch.no_grad():
        scale = a.norm() + 1
    with torch.autocast("cpu", torch.bfloat16):
        return (a @ s.m / scale).float()


REFUSED = {
    "different draws": lambda s, x: vmap(lambda a: F.dropout(a, 0.5), randomness="different")(x),
    "a buffer in place": lambda s, x: vmap(lambda a: a.mul_(2))(x * 1),
    "strided": lambda s, x: vmap(lambda a: a.as_strided((6,), (1,)) * 2)(x),
}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x) * vmap(lambda r: r.sigmoid() * r.sum())(x)[:, :1]))


class Deep(nn.Module):
    """Blocks that a vmap lies within."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.head = nn.Sequential(*(Layer() for _ in range(3))), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.layers(x))


class Judged(nn.Module):
    """A loss of its own, mapped over samples: the targets are not there when the prediction is made."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x, labels):
        y = vmap(self.net)(x)
        return {"logits": y, "loss": vmap(lambda a, b: (a - b).square().sum())(y, labels).mean()}


def trained(model, steps, judged=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    losses = []
    for step in range(steps):
        torch.manual_seed(1000 + step)
        x, target = torch.randn(8, 6), torch.randn(8, 3)
        torch.manual_seed(2000 + step)
        loss = model(x, target)["loss"] if judged else F.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(struct.pack(">f", loss.item()).hex())
    model.eval()
    return losses


def exported(model, path, *inputs):
    batch = tuple({0: Dim("batch", min=2, max=64)} for _ in inputs)
    failed = []
    # What PyTorch can't write down in one way (a dimension that is moved, a weight from around the function), it can in another.
    for shapes, strict in [(batch, False), (batch, True), (None, False), (None, True)]:
        try:
            save(export(model, inputs, dynamic_shapes=shapes, strict=strict), path)
            return
        except Exception as error:  # noqa: BLE001
            failed.append(f"{type(error).__name__}: {str(error)[:300]}")
    raise RuntimeError(f"{path}: {failed}")


warnings.filterwarnings("ignore")
torch.set_num_threads(1)
asked = json.load(sys.stdin)
x = torch.randn(8, 6)
models = {name: (lambda f=f: Mapped(f)) for name, f in FUNCTIONS.items()} | {"deep": Deep}
answers = []
for name, make in models.items():
    path = f"{asked['folder']}/{name}.pt2"
    exported(make(), path, x)
    model = make()
    losses = trained(model, asked["steps"])
    with torch.no_grad():
        torch.manual_seed(3000)
        evaluated = struct.pack(">f", model(torch.randn(8, 6)).double().sum().float().item()).hex()
    shapes = {"input": {"shape": [8, 6]}, "target": {"shape": [8, 3]}}
    answers.append({"path": path, "losses": losses, "evaluated": evaluated, "task": "regression", "outputs": 3, "ms": 0, **shapes})
exported(Judged(), f"{asked['folder']}/judged.pt2", x, torch.randn(8, 3))
judged = trained(Judged(), asked["steps"], judged=True)
for name, f in REFUSED.items():
    exported(Mapped(f), f"{asked['folder']}/{name}.pt2", x)
json.dump({"torch": torch.__version__, "answers": answers, "judged": judged, "refused": list(REFUSED)}, sys.stdout)
