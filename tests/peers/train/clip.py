"""torch.nn.utils.clip_grad_norm_ on given gradients."""
import json
import sys

import torch


def answer(case):
    parameters = [torch.zeros(len(g), requires_grad=True) for g in case["gradients"]]
    for p, g in zip(parameters, case["gradients"]):
        p.grad = torch.tensor(g)
    if "shape" in case:
        layout = torch.channels_last if case["channels_last"] else torch.contiguous_format
        parameters = [torch.zeros(case["shape"]).to(memory_format=layout).requires_grad_() for _ in parameters]
        for p, g in zip(parameters, case["gradients"]):
            p.grad = torch.tensor(g).reshape(case["shape"]).contiguous(memory_format=layout)
    norm = torch.nn.utils.clip_grad_norm_(parameters, case["limit"])
    return {"norm": norm.item(), "gradients": [p.grad.tolist() for p in parameters]}


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
