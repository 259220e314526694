"""Mixed precision with a scaler, in DDP of one process, whose gradients meet behind the second of two micro-batches."""
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
every = 2
for step in range(40):
    optimizer.zero_grad(set_to_none=True)
    for micro in range(every):
        x, y = torch.randn(8, 12), torch.randint(0, 4, (8,))
        with model.no_sync() if micro < every - 1 else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss / every).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
