"""Clips given gradients in torch's and timm's other ways: by value, each group by its own norm, and adaptively (AGC)."""
import json
import sys

import torch


def unitwise_norm(x, norm_type=2.0):
    """As timm/utils/agc.py has it."""
    if x.ndim <= 1:
        return x.norm(norm_type)
    return x.norm(norm_type, dim=tuple(range(1, x.ndim)), keepdim=True)


def adaptive_clip_grad(parameters, clip_factor, eps=1e-3):
    for p in parameters:
        max_norm = unitwise_norm(p.detach()).clamp_(min=eps).mul_(clip_factor)
        grad_norm = unitwise_norm(p.grad)
        clipped = p.grad * (max_norm / grad_norm.clamp(min=1e-6))
        p.grad.copy_(torch.where(grad_norm < max_norm, p.grad, clipped))


def answer(case):
    parameters = []
    for one in case["parameters"]:
        p = torch.tensor(one["weights"], dtype=torch.float32).reshape(one["shape"]).requires_grad_()
        p.grad = torch.tensor(one["gradient"], dtype=torch.float32).reshape(one["shape"])
        parameters.append(p)
    if "value" in case:
        torch.nn.utils.clip_grad_value_(parameters, case["value"])
    if "adaptive" in case:
        adaptive_clip_grad([p for i, p in enumerate(parameters) if i not in case["head"]], case["adaptive"])
    for group, limit in case.get("groups", []):
        torch.nn.utils.clip_grad_norm_([parameters[i] for i in group], limit)
    return [p.grad.flatten().tolist() for p in parameters]


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
