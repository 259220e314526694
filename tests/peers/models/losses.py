"""PyTorch's losses: value and gradient as prints, and how many items the mean divided by."""
import torch
import torch.nn.functional as F
from common import made, serve, show


def gaussian_nll(output, target):
    mean, log_variance = output.chunk(2, dim=1)
    loss = (0.5 * (log_variance + (mean - target) ** 2 * torch.exp(-log_variance))).mean()
    torch.testing.assert_close(loss, F.gaussian_nll_loss(mean, target, log_variance.exp(), eps=1e-12))
    return loss


def answer(case):
    torch.manual_seed(1)
    output, target = made(case["output"]).requires_grad_(), made(case["target"])
    if case["shares"]:
        target = target.softmax(1)
    kind, options = case["function"], case["options"]
    if kind == "cross_entropy":
        rows = output.flatten(0, 1) if case["task"] == "language" else output
        if case["task"] == "segmentation" and rows.shape[2:] != target.shape[1:]:  # as SegFormer's users do
            rows = F.interpolate(rows, size=target.shape[1:], mode="bilinear", align_corners=False)
        loss = F.cross_entropy(rows, target.flatten() if case["task"] == "language" else target, **options)
        count = len(target) if case["shares"] else int((target != options.get("ignore_index", -100)).sum())
    elif kind == "gaussian_nll":
        loss, count = gaussian_nll(output, target), target.numel()
    else:
        target = target[:, 1:] if case["shares"] else target
        loss = getattr(F, kind)(output, target.to(output.dtype).view_as(output), **options)
        count = target.numel()
    loss.backward()
    return {"loss": show(loss), "gradient": show(output.grad), "count": count}


serve(answer)
