"""PyTorch's losses: value and gradient as prints, and how many items the mean divided by; of formulas as numbers."""
import torch
import torch.nn.functional as F
import torchvision
from common import made, serve, show


def gaussian_nll(output, target):
    mean, log_variance = output.chunk(2, dim=1)
    loss = (0.5 * (log_variance + (mean - target) ** 2 * torch.exp(-log_variance))).mean()
    torch.testing.assert_close(loss, F.gaussian_nll_loss(mean, target, log_variance.exp(), eps=1e-12))
    return loss


def focal(output, target, gamma, ignore_index=-100, weight=None):
    if output.dim() == 3:
        output, target = output.flatten(0, 1), target.flatten()
    valid = target != ignore_index
    w = valid.float() if weight is None else torch.tensor(weight)[target.clamp(min=0)] * valid
    surprise = F.cross_entropy(output, target, reduction="none", ignore_index=ignore_index)
    loss = ((1 - torch.exp(-surprise)).clamp(min=1e-8) ** gamma * surprise * w).sum() / w.sum()
    if output.dim() == 2 and output.shape[1] == 2:
        one = torchvision.ops.sigmoid_focal_loss(output[:, 1] - output[:, 0], target.float(), -1, gamma, "mean")
        torch.testing.assert_close(loss, one)
    return loss, float(w.sum())


def dice(output, target, ignore_index=-100):
    """MONAI's DiceLoss(softmax=True, to_onehot_y=True), sample by sample, over labels that count."""
    losses = []
    for scores, labels in zip(output.flatten(2), target.flatten(1)):
        valid = labels != ignore_index
        if not valid.any():
            continue
        p, t = scores.softmax(0)[:, valid], F.one_hot(labels[valid], len(scores)).T
        losses.append((1 - (2 * (p * t).sum(1) + 1e-5) / (p.sum(1) + t.sum(1) + 1e-5)).mean())
    return torch.stack(losses).mean(), len(losses)


def quantile(output, target, quantiles):
    losses = []
    for q, predicted in zip(quantiles, output.chunk(len(quantiles), dim=1)):
        e = target - predicted
        losses.append(torch.where(e > 0, q * e, (q - 1) * e))
    return torch.stack(losses).mean(), target.numel()


def crps(output, target):
    mean, log_variance = output.chunk(2, dim=1)
    sigma = (log_variance / 2).exp()
    z, normal = (target - mean) / sigma, torch.distributions.Normal(0, 1)
    loss = sigma * (z * (2 * normal.cdf(z) - 1) + 2 * normal.log_prob(z).exp() - 1 / torch.pi**0.5)
    # The same by its definition: the integral of (F(x) - [x >= target])^2.
    one = lambda t: t.detach().flatten()[:1].double()
    x = torch.linspace(-30, 30, 600_001, dtype=torch.float64)
    error = torch.distributions.Normal(one(mean), one(sigma)).cdf(x) - (x >= one(target)).double()
    torch.testing.assert_close(torch.trapezoid(error**2, x), one(loss)[0], rtol=1e-3, atol=1e-4)
    return loss.mean(), target.numel()


def spectral(output, target, weight):
    a, b = (torch.fft.rfft2(t, norm="ortho").abs() for t in (output, target))
    return F.mse_loss(output, target) + weight * F.mse_loss(a, b), target.numel()


FORMULAS = {"spectral": spectral, "focal": focal, "dice": dice, "quantile": quantile, "crps": crps}


def answer(case):
    torch.manual_seed(1)
    output, target = made(case["output"]).requires_grad_(), made(case["target"])
    if case["shares"]:
        target = target.softmax(1)
    kind, options = case["function"], case["options"]
    if kind in FORMULAS:
        loss, count = FORMULAS[kind](output, target, **options)
        loss.backward()
        return {"numbers": [loss.item()] + output.grad.flatten().tolist(), "count": count}
    weight = options.get("weight")
    if weight is not None:
        options = {**options, "weight": torch.tensor(weight)}
    if kind == "cross_entropy":
        rows = output.flatten(0, 1) if case["task"] == "language" else output
        if case["task"] == "segmentation" and rows.shape[2:] != target.shape[1:]:  # as SegFormer's users do
            rows = F.interpolate(rows, size=target.shape[1:], mode="bilinear", align_corners=False)
        loss = F.cross_entropy(rows, target.flatten() if case["task"] == "language" else target, **options)
        valid = target != options.get("ignore_index", -100)
        count = len(target) if case["shares"] else int(valid.sum())
        if weight is not None:
            count = float(torch.tensor(weight)[target[valid]].sum())
    elif kind == "gaussian_nll":
        loss, count = gaussian_nll(output, target), target.numel()
    else:
        target = target[:, 1:] if case["shares"] else target
        loss = getattr(F, kind)(output, target.to(output.dtype).view_as(output), **options)
        count = target.numel()
    loss.backward()
    return {"loss": show(loss), "gradient": show(output.grad), "count": count}


serve(answer)
