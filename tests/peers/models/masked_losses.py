"""PyTorch's losses over the points that count: of what is selected, and of nothing else."""
import torch
import torch.nn.functional as F
from common import made, serve


def answer(case):
    torch.manual_seed(1)
    output, target = made(case["output"]).requires_grad_(), made(case["target"])
    valid = torch.arange(target.numel()).reshape(target.shape) % 3 != 1
    kind, options = case["function"], case["options"]
    if kind in ("cross_entropy", "focal"):
        scores, labels = output.movedim(1, -1)[valid], target[valid]
        weight = torch.tensor(case["weights"]) if case["weights"] else None
        loss = F.cross_entropy(scores, labels, weight, **options)
        if kind == "focal":
            surprise = F.cross_entropy(scores, labels, reduction="none")
            loss = ((1 - torch.exp(-surprise)) ** 2 * surprise).mean()
    elif kind == "quantile":
        three = torch.stack(output.chunk(3, 1))[:, valid]
        miss = target[valid] - three
        q = torch.tensor([0.1, 0.5, 0.9])[:, None]
        loss = torch.maximum(q * miss, (q - 1) * miss).mean()
    elif kind == "crps":
        mean, log_variance = (half[valid] for half in output.chunk(2, dim=1))
        sigma = torch.exp(log_variance / 2)
        z = (target[valid] - mean) / sigma
        normal = torch.distributions.Normal(torch.tensor(0.0), torch.tensor(1.0))
        loss = (sigma * (z * (2 * normal.cdf(z) - 1) + 2 * normal.log_prob(z).exp() - torch.pi ** -0.5)).mean()
    elif kind == "gaussian_nll":
        mean, log_variance = (half[valid] for half in output.chunk(2, dim=1))
        loss = F.gaussian_nll_loss(mean, target[valid], log_variance.exp(), eps=1e-12)
    else:
        point = valid.view_as(output)
        loss = getattr(F, kind)(output[point], target[valid].to(output.dtype), **options)
    loss.backward()
    count = weight[labels].sum().item() if case["weights"] else int(valid.sum())
    return {"loss": loss.item(), "gradient": output.grad.flatten().tolist(), "count": count}


serve(answer)
