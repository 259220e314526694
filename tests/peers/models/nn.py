"""torch.nn's modules: initial tensors, forward in both modes, gradients, as prints."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from common import made, serve, show


class SelfAttention(nn.MultiheadAttention):
    """nn.MultiheadAttention of a sequence over itself, without the attention weights."""

    def __init__(self, *args, causal=False, **options):
        super().__init__(*args, batch_first=True, **options)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1)) if self.causal else None
        return super().forward(x, x, x, need_weights=False, attn_mask=mask, is_causal=self.causal)[0]


class Truncated(nn.Module):
    """A weight from trunc_normal_."""

    def __init__(self, size, std):
        super().__init__()
        self.weight = nn.Parameter(nn.init.trunc_normal_(torch.empty(size), std=std))

    def forward(self, x):
        return x * self.weight


class Function(nn.Module):
    """A function of torch.nn.functional as a module."""

    def __init__(self, name, **options):
        super().__init__()
        self.call = lambda x: getattr(F, name)(x, **options)

    def forward(self, x):
        return self.call(x)


def answer(case):
    torch.manual_seed(1)
    kind = globals().get(case["module"]) or getattr(nn, case["module"])
    tuples = {name: tuple(v) if isinstance(v, list) else v for name, v in case["options"].items()}
    module = kind(*case["args"], **tuples)
    state = [[name, show(t)] for name, t in module.state_dict().items()]
    torch.manual_seed(2)
    for p in module.parameters():
        torch.nn.init.normal_(p, 0, 0.5)
    x = made(case["input"])
    if x.is_floating_point():
        x.requires_grad_()
    torch.manual_seed(3)
    y = module(x)
    (y * y).mean().backward()
    result = {
        "state": state,
        "train": show(y),
        "gradients": [[name, show(p.grad)] for name, p in module.named_parameters()],
        "input gradient": show(x.grad) if x.requires_grad else "none",
        "buffers": [[name, show(b)] for name, b in module.named_buffers()],
    }
    module.eval()
    result["eval"] = show(module(x))
    return result


torch.backends.mha.set_fastpath_enabled(False)  # inference only, and other arithmetic than training's
serve(answer)
