"""Exported programs that end in an activation, and what eager training of them with the loss that fits gives."""
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim, export, save

asked = json.load(sys.stdin)
folder, STEPS, ROWS = asked["folder"], asked["steps"], 8
torch.set_num_threads(1)


class Ends(nn.Module):
    def __init__(self, outputs, end):
        super().__init__()
        self.layer, self.end = nn.Linear(6, outputs), end

    def forward(self, x):
        return self.end(self.layer(x))


class Attends(Ends):
    """Its shares are used within the graph, too."""

    def forward(self, x):
        shares = self.layer(x).softmax(1)
        return {"out": shares, "hidden": shares * 2}


class Map(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, 1)

    def forward(self, x):
        return torch.sigmoid(self.conv(x))


class Vae(Ends):
    """A reconstruction first, and what made it."""

    def __init__(self):
        super().__init__(40, None)
        self.log = nn.Linear(6, 2)

    def forward(self, x):
        return self.layer(x), self.log(x), self.log(x).exp()


class Last(nn.Module):
    """Scores of a text's last position, or of all."""

    def __init__(self, cut):
        super().__init__()
        self.table, self.head, self.cut = nn.Embedding(11, 6), nn.Linear(6, 11), cut

    def forward(self, x):
        return self.head(self.cut(self.table(x)))


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        return x @ self.weight


probabilities = lambda out, y: F.nll_loss(out.log(), y)
numbers = lambda out, y: F.binary_cross_entropy(out, y)
two = lambda out, y: F.binary_cross_entropy(out.flatten(), y.flatten().float())
CASES = {
    "softmax": (lambda: Ends(4, nn.Softmax(1)), 4, probabilities),
    "attends": (lambda: Attends(4, None), 4, lambda out, y: probabilities(out["out"], y)),
    "log_softmax": (lambda: Ends(4, nn.LogSoftmax(-1)), 4, F.nll_loss),
    "sigmoid": (lambda: Ends(1, nn.Sigmoid()), 2, two),
    "squeezed": (lambda: Ends(1, lambda x: torch.sigmoid(x).view(-1, 1, 1).reshape(-1, 1)), 2, two),
    "map": (Map, "map", two),
    "numbers": (lambda: Ends(3, nn.Sigmoid()), "numbers", numbers),
    "shares": (lambda: Ends(3, nn.Softmax(1)), "numbers", numbers),
    "logits": (lambda: Ends(3, nn.Identity()), "numbers", F.binary_cross_entropy_with_logits),
    "logs": (lambda: Ends(3, nn.LogSigmoid()), "numbers", None),
    "several": (lambda: Ends(4, nn.Sigmoid()), 4, F.cross_entropy),
    "other_softmax": (lambda: Ends(4, nn.Softmax(0)), 4, F.cross_entropy),
    "in_place": (lambda: Ends(1, lambda x: x.sigmoid_()), 2, None),
}


def batch(kind, step):
    torch.manual_seed(1000 + step)
    x = torch.randn(*((ROWS, 2, 3, 3) if kind == "map" else (ROWS, 6)))
    if kind == "numbers":
        return x, torch.rand(ROWS, 3)
    return x, torch.randint(0, 2 if kind == "map" else kind, (ROWS, 3, 3) if kind == "map" else (ROWS,))


torch.manual_seed(1)
rows = torch.randn(ROWS, 6)
by_rows = {"dynamic_shapes": [{0: Dim("batch", min=2)}]}
save(export(Vae(), (rows,), **by_rows), os.path.join(folder, "vae.pt2"))
save(export(Sparse(), (rows.to_sparse(),)), os.path.join(folder, "sparse.pt2"))
for name, cut in {"last": lambda t: t[:, -1], "last_kept": lambda t: t[:, -1:], "all": lambda t: t}.items():
    save(export(Last(cut), (torch.randint(0, 11, (ROWS, 5)),), **by_rows), os.path.join(folder, f"{name}.pt2"))
few = nn.Conv2d(2, 2, 1)
save(export(few, (torch.randn(ROWS, 2, 3, 3),), **by_rows), os.path.join(folder, "few.pt2"))

answers = {}
for name, (make, kind, loss_of) in CASES.items():
    torch.manual_seed(1)
    model, (x, _) = make().train(), batch(kind, 0)
    save(export(model, (x,), dynamic_shapes=[{0: Dim("batch", min=2)}]), os.path.join(folder, f"{name}.pt2"))
    if loss_of is None:
        continue
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for step in range(STEPS):
        x, y = batch(kind, step)
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    answers[name] = losses
json.dump({"answers": answers}, sys.stdout)
