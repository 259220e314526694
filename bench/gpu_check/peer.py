"""PyTorch's side of the step times, as its users write it for speed. See worker.ts. Arguments: a Spec as JSON, the device, and
eager, compile, or reduce-overhead."""
import contextlib
import json
import re
import sys
import time
from pathlib import Path

import torch

from peer_models import prepare

spec, device, mode = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.manual_seed(0)


def held():
    """Bytes of the device that are in use."""
    if device == "cpu":
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


before = held()


def trainer(spec):
    model, x, y, loss_of = prepare(spec)
    model, x, y = model.to(device), x.to(device), y.to(device)
    if spec["model"] == "resnet50":
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=0.01, fused=True)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    if mode == "eager":
        run = model
    elif "backend" in spec:
        run = torch.compile(model, backend=spec["backend"])
    else:
        run = torch.compile(model, mode="default" if mode == "compile" else mode)
    cast = (lambda: torch.autocast(device, torch.bfloat16)) if spec["bf16"] else contextlib.nullcontext
    graphs = mode == "reduce-overhead" and "backend" not in spec

    def step():
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()  # the last step's memory may be used again
        with cast():
            loss = loss_of(run(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


for other in spec.get("also", []):  # a rehearsal tries every model in one process
    trainer(other)()
step = trainer(spec)

print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range(int(line)):
        loss = step()
    last = loss.item()  # the one time a round that a value is read back
    seconds = time.perf_counter() - began
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
    print(json.dumps({"seconds": seconds, "loss": last, "peak": peak, "device": held() - before}), flush=True)
