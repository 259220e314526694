"""PyTorch's losses over the points that count: of what is selected, and of nothing else."""
import torch
import torch.nn.functional as F
from common import made, serve


def answer(case):
    torch.manual_seed(1)
    output, target = made(case["output"]).requires_grad_(), made(case["target"])
    valid = torch.arange(target.numel()).reshape(target.shape) % 3 != 1
    kind, options = case["function"], case["options"]
    points = torch.tensor(case["points"] or [1.0]).reshape(target.shape[-2:] if case["points"] else (1,))
    weight = points.expand(target.shape)[valid]
    share = weight
    if kind in ("cross_entropy", "focal"):
        scores, labels = output.movedim(1, -1)[valid], target[valid]
        classes = torch.tensor(case["weights"]) if case["weights"] else None
        each = F.cross_entropy(scores, labels, classes, reduction="none", **options)
        if classes is not None:
            share = weight * classes[labels]
        if kind == "focal":
            each = (1 - torch.exp(-each)) ** 2 * each
    elif kind == "quantile":
        three = torch.stack(output.chunk(3, 1))[:, valid]
        miss = target[valid] - three
        q = torch.tensor([0.1, 0.5, 0.9])[:, None]
        each = torch.maximum(q * miss, (q - 1) * miss).mean(0)
    elif kind == "crps":
        mean, log_variance = (half[valid] for half in output.chunk(2, dim=1))
        sigma = torch.exp(log_variance / 2)
        z = (target[valid] - mean) / sigma
        normal = torch.distributions.Normal(torch.tensor(0.0), torch.tensor(1.0))
        each = sigma * (z * (2 * normal.cdf(z) - 1) + 2 * normal.log_prob(z).exp() - torch.pi ** -0.5)
    elif kind == "gaussian_nll":
        mean, log_variance = (half[valid] for half in output.chunk(2, dim=1))
        each = F.gaussian_nll_loss(mean, target[valid], log_variance.exp(), eps=1e-12, reduction="none")
    else:
        each = getattr(F, kind)(output[valid.view_as(output)], target[valid].to(output.dtype), reduction="none", **options)
    loss = (each * weight).sum() / share.sum()
    loss.backward()
    return {"loss": loss.item(), "gradient": output.grad.flatten().tolist(), "count": share.double().sum().item()}


serve(answer)
