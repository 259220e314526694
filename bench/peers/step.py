"""PyTorch's side of the step benchmark: trains as many steps as each line of input says, answers with JSON. See bench/step.ts and bench/worker.ts."""
import json
import re
import sys
import time

from models import prepare


def peak_memory():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read())[1]) * 1024


MODES = {"compile": "default", "reduce-overhead": "reduce-overhead"}

step = prepare(sys.argv[1], MODES.get(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range(int(line)):
        loss = step()
    last = loss.item()  # the one time a round that a value is read back
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "loss": last, "peak": peak_memory(), "parameters": step.parameters}), flush=True)
