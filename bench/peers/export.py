"""Exports the step benchmark's models, with the weights they begin with: argument: a folder. And one of 100 MB, for start-up."""
import sys
import os

import torch
import torch.nn as nn

from models import WORKLOADS

folder = sys.argv[1]
for name in ("gpt", "resnet18"):
    make, batch, *_ = WORKLOADS[name]
    torch.manual_seed(0)
    model = make().train()
    torch.manual_seed(1)
    x, _ = batch()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    torch.export.save(program, os.path.join(folder, f"{name}.pt2"))
wide = nn.Sequential(nn.Linear(7, 5000), nn.ReLU(), nn.Linear(5000, 5000), nn.ReLU(), nn.Linear(5000, 1))
program = torch.export.export(wide.train(), (torch.randn(32, 7),), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
torch.export.save(program, os.path.join(folder, "wide.pt2"))
