"""The scales of torch.amp.GradScaler over steps that overflow or not."""
import json
import sys

import torch

case = json.load(sys.stdin)
scaler = torch.amp.GradScaler("cpu", init_scale=case["init"], growth_interval=case["interval"])
weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scales = []
for overflow in case["overflows"]:
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    if overflow:
        weight.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
json.dump(scales, sys.stdout)
