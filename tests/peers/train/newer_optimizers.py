"""Trains the mlp with torch.optim.Muon, and with Lion and schedule-free AdamW as their authors published them."""
import inspect
import json
import sys

import torch
import torch.nn.functional as F
import torch.optim._muon as torch_muon
from torch import nn

# PyTorch's own iteration, in f32: the bits of bf16 products differ from CPU to CPU.
source = inspect.getsource(torch_muon._zeropower_via_newtonschulz)
assert "torch.bfloat16" in source
exec(source.replace("torch.bfloat16", "torch.float32"), vars(torch_muon))


class Lion(torch.optim.Optimizer):
    """google/automl, lion_pytorch.py."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                exp_avg, (beta1, beta2) = state["exp_avg"], group["betas"]
                update = exp_avg * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class ScheduleFree(torch.optim.Optimizer):
    """facebookresearch/schedule_free, adamw_schedulefree.py of 1.4."""

    def __init__(self, params, lr, betas, weight_decay, eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, eps=eps, k=0, lr_max=-1.0, weight_sum=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            lr = group["lr"]
            lr_max = group["lr_max"] = max(lr, group["lr_max"])
            weight = lr_max**2
            weight_sum = group["weight_sum"] = group["weight_sum"] + weight
            ckp1 = weight / weight_sum
            bias_correction2 = 1 - beta2 ** (group["k"] + 1)
            for y in group["params"]:
                state = self.state[y]
                if "z" not in state:
                    state["z"] = torch.clone(y)
                    state["exp_avg_sq"] = torch.zeros_like(y)
                z, exp_avg_sq, grad = state["z"], state["exp_avg_sq"], y.grad
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                denom = exp_avg_sq.div(bias_correction2).sqrt_().add_(group["eps"])
                grad_normalized = grad.div(denom)
                if group["weight_decay"] != 0:
                    grad_normalized.add_(y, alpha=group["weight_decay"])
                y.lerp_(end=z, weight=ckp1)
                y.add_(grad_normalized, alpha=lr * (beta1 * (1 - ckp1) - 1))
                z.sub_(grad_normalized, alpha=lr)
            group["k"] += 1

    @torch.no_grad()
    def eval(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.lerp_(end=self.state[p]["z"], weight=1 - 1 / group["betas"][0])


def made(case, model):
    options = case["options"]
    if case["type"] == "lion":
        return [Lion(model.parameters(), **options)]
    if case["type"] == "schedule_free":
        return [ScheduleFree(model.parameters(), **options)]
    hidden = [model[2].weight, model[4].weight]
    others = [p for p in model.parameters() if all(p is not h for h in hidden)]
    return [
        torch.optim.Muon(hidden, lr=options["lr"], weight_decay=options["weight_decay"], adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=options["lr"], weight_decay=options["weight_decay"], fused=True),
    ]


def answer(case):
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(7, 37), nn.ReLU(), nn.Linear(37, 37), nn.ReLU(), nn.Linear(37, 37), nn.ReLU(), nn.Linear(37, 1)
    )
    torch.manual_seed(2)
    x, y = torch.randn(32, 7), torch.randn(32, 1)
    optimizers, losses = made(case, model), []
    for step in range(case["steps"]):
        for optimizer in optimizers:
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = case["rates"][step]
        loss = F.mse_loss(model(x), y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    trained = [p.flatten().tolist() for p in model.parameters()]
    if case["type"] == "schedule_free":
        optimizers[0].eval()
    return {"losses": losses, "weights": trained, "judged": [p.flatten().tolist() for p in model.parameters()]}


def orthogonal(case):
    torch.manual_seed(3)
    return [torch_muon._zeropower_via_newtonschulz(torch.randn(*shape), (3.4445, -4.7750, 2.0315), 5, 1e-7).flatten().tolist() for shape in case]


torch.set_num_threads(1)
asked = json.load(sys.stdin)
json.dump({"trained": [answer(case) for case in asked["cases"]], "orthogonal": orthogonal(asked["shapes"])}, sys.stdout)
