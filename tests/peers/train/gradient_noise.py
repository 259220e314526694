"""Each sample's gradient by torch.func: the trace of their covariance, and the square of their mean, both without bias."""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap

count = json.load(sys.stdin)
torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(7, 37), nn.ReLU(), nn.Linear(37, 37), nn.ReLU(), nn.Linear(37, 1))
torch.manual_seed(2)
x, y = torch.randn(count, 7), torch.randn(count, 1)
weights = {name: p.detach().double() for name, p in model.named_parameters()}
loss = lambda w, x, y: F.mse_loss(functional_call(model, w, (x[None],)), y[None])
each = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x.double(), y.double())
flat = torch.cat([g.flatten(1) for g in each.values()], 1)
variance = flat.var(0, unbiased=True).sum()
square = flat.mean(0).square().sum() - variance / count
json.dump({"variance": variance.item(), "squaredMean": square.item()}, sys.stdout)
