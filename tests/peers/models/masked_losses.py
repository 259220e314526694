"""PyTorch's losses over the points that count: of what is selected, and of nothing else."""
import torch
import torch.nn.functional as F
from common import made, serve


def answer(case):
    torch.manual_seed(1)
    output, target = made(case["output"]).requires_grad_(), made(case["target"])
    valid = torch.arange(target.numel()).reshape(target.shape) % 3 != 1
    kind, options = case["function"], case["options"]
    if kind == "cross_entropy":
        loss = F.cross_entropy(output.movedim(1, -1)[valid], target[valid], **options)
    elif kind == "gaussian_nll":
        mean, log_variance = (half[valid] for half in output.chunk(2, dim=1))
        loss = F.gaussian_nll_loss(mean, target[valid], log_variance.exp(), eps=1e-12)
    else:
        point = valid.view_as(output)
        loss = getattr(F, kind)(output[point], target[valid].to(output.dtype), **options)
    loss.backward()
    return {"loss": loss.item(), "gradient": output.grad.flatten().tolist(), "count": int(valid.sum())}


serve(answer)
