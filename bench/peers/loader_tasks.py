"""What a side of the loader benchmark is asked to do. `make` gives a loader: batches of inputs and targets, an epoch whenever it is iterated.
  rounds  reads as many epochs as each line of input says and answers with JSON
  moments reads one epoch and prints its means and mean squares, which the other side must have too
  first   prints how long the first batch took, from the first line of the user's own code that knows of data"""
import json
import re
import sys
import time

import torch


def peak_memory():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read())[1]) * 1024


def answer(value):
    print(json.dumps(value), flush=True)


def rounds(make):
    loader = make()
    answer({"ready": True})
    for line in sys.stdin:
        began = time.perf_counter()
        samples = 0
        for _ in range(int(line)):
            for x, _ in loader:
                samples += len(x)
        answer({"seconds": time.perf_counter() - began, "loss": samples, "peak": peak_memory()})


def moments(make):
    samples, input, square, target = 0, 0.0, 0.0, 0.0
    for x, y in make():
        samples += len(x)
        input += x.double().mean().item() * len(x)
        square += x.double().square().mean().item() * len(x)
        target += y.double().mean().item() * len(x)
    types = [{torch.float32: "f32", torch.int64: "i64"}[t.dtype] for t in (x, y)]
    means = {"input": input / samples, "square": square / samples, "target": target / samples}
    answer({"samples": samples, "shape": list(x.shape[1:]), "types": types, **means})


def first(make):
    began = time.perf_counter()
    next(iter(make()))
    answer({"seconds": time.perf_counter() - began})


TASKS = {"rounds": rounds, "moments": moments, "first": first}
