"""PyTorch's side of the step times, as its users write it for speed. Arguments: a Spec as JSON, device, eager or compile. See worker.ts."""
import contextlib
import json
import re
import sys
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.append(str(Path(__file__).parent.parent / "peers"))
from models import Gpt, cross_entropy  # noqa: E402  (the GPT that the CPU's benchmark compares with)

spec, device, mode = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
batch, size, width = spec["batch"], spec["size"], spec["width"]

if spec["model"] == "mlp":
    model = nn.Sequential(nn.Linear(7, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)).to(device)
    x, y, loss_of = torch.randn(batch, 7), torch.randn(batch, 1), F.mse_loss
elif spec["model"] == "gpt":
    model = Gpt(spec["outputs"], size, spec["layers"], width, spec["heads"]).to(device)
    x, y = (torch.randint(0, spec["outputs"], (batch, size)) for _ in range(2))
    loss_of = cross_entropy
else:
    import torchvision

    model = torchvision.models.resnet18(num_classes=spec["outputs"]).to(device, memory_format=torch.channels_last)
    x = torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)
    y, loss_of = torch.randint(0, spec["outputs"], (batch,)), F.cross_entropy
x, y = x.to(device), y.to(device)
if spec["model"] == "resnet18":
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=0.01, fused=True)
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
run = torch.compile(model) if mode == "compile" else model
cast = (lambda: torch.autocast(device, torch.bfloat16)) if spec["bf16"] else contextlib.nullcontext


def step():
    with cast():
        loss = loss_of(run(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range(int(line)):
        loss = step()
    last = loss.item()  # the one time a round that a value is read back
    seconds = time.perf_counter() - began
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
    print(json.dumps({"seconds": seconds, "loss": last, "peak": peak}), flush=True)
