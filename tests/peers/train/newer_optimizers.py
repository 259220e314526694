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


class Prodigy(torch.optim.Optimizer):
    """konstmish/prodigy, prodigy.py of prodigyopt 1.1.2, without slices and ranks."""

    def __init__(self, params, lr=1.0, betas=(0.9, 0.999), beta3=None, eps=1e-8, weight_decay=0, decouple=True, use_bias_correction=False, safeguard_warmup=False, d0=1e-6, d_coef=1.0, growth_rate=float("inf")):
        found = dict(d=d0, d_max=d0, d_numerator=0.0, k=0)
        super().__init__(params, dict(found, lr=lr, betas=betas, beta3=beta3, eps=eps, weight_decay=weight_decay, decouple=decouple, use_bias_correction=use_bias_correction, safeguard_warmup=safeguard_warmup, d0=d0, d_coef=d_coef, growth_rate=growth_rate))

    @torch.no_grad()
    def step(self):
        (group,) = self.param_groups
        (beta1, beta2), lr, d, d0, decay = group["betas"], group["lr"], group["d"], group["d0"], group["weight_decay"]
        if lr == 0:
            return
        beta3 = beta2**0.5 if group["beta3"] is None else group["beta3"]
        count = group["k"] + 1
        dlr = d * lr * ((1 - beta2**count) ** 0.5 / (1 - beta1**count) if group["use_bias_correction"] else 1)
        upper, lower = group["d_numerator"] * beta3, 0.0
        added = 0.0
        for p in group["params"]:
            g, state = p.grad, self.state[p]
            if decay != 0 and not group["decouple"]:
                g.add_(p, alpha=decay)
            if not state:
                state.update(s=torch.zeros_like(p.flatten()), p0=p.flatten().clone(), exp_avg_sq=torch.zeros_like(p))
                if beta1 > 0:
                    state["exp_avg"] = torch.zeros_like(p)
            added += (d / d0) * dlr * torch.dot(g.flatten(), state["p0"] - p.flatten()).item()
            if beta1 > 0:
                state["exp_avg"].mul_(beta1).add_(g, alpha=d * (1 - beta1))
            state["exp_avg_sq"].mul_(beta2).addcmul_(g, g, value=d * d * (1 - beta2))
            state["s"].mul_(beta3).add_(g.flatten(), alpha=(d / d0) * (d if group["safeguard_warmup"] else dlr))
            lower += state["s"].abs().sum().item()
        if lower == 0:
            return
        group["d_numerator"] = upper + added
        estimate = group["d_coef"] * group["d_numerator"] / lower
        grown = max(d, estimate) if d == d0 else d
        group["d_max"] = max(group["d_max"], estimate)
        group["d"] = min(group["d_max"], grown * group["growth_rate"])
        for p in group["params"]:
            state = self.state[p]
            under = state["exp_avg_sq"].sqrt().add_(group["d"] * group["eps"])
            if decay != 0 and group["decouple"]:
                p.add_(p, alpha=-decay * dlr)
            if beta1 > 0:
                p.addcdiv_(state["exp_avg"], under, value=-dlr)
            else:
                p.addcdiv_(p.grad, under, value=-dlr * group["d"])
        group["k"] = count


class Soap(torch.optim.Optimizer):
    """nikhilvyas/SOAP, soap.py of 2024, without merged dimensions."""

    def __init__(self, params, lr, betas=(0.95, 0.95), eps=1e-8, weight_decay=0.01, precondition_frequency=10, max_precond_dim=10000, normalize_grads=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, every=precondition_frequency, longest=max_precond_dim, normalize=normalize_grads))

    @staticmethod
    def turn(x, bases, dim):
        for basis in bases:
            x = x.permute(*range(1, x.dim()), 0) if basis is None else torch.tensordot(x, basis, dims=[[0], [dim]])
        return x

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.step_of(p, group)

    def step_of(self, p, group):
        g, state, (beta1, beta2) = p.grad, self.state[p], group["betas"]
        is_first = not state
        if is_first:
            sizes = [size if g.dim() > 1 and size <= group["longest"] else None for size in g.shape]
            state.update(step=0, exp_avg=torch.zeros_like(g), exp_avg_sq=torch.zeros_like(g), Q=None)
            state["GG"] = [None if size is None else torch.zeros(size, size) for size in sizes]
        else:
            state["step"] += 1
            turned = self.turn(g, state["Q"], 0)
            state["exp_avg"].mul_(beta1).add_(turned, alpha=1 - beta1)
            state["exp_avg_sq"].mul_(beta2).add_(turned.square(), alpha=1 - beta2)
            way = self.turn(state["exp_avg"] / state["exp_avg_sq"].sqrt().add_(group["eps"]), state["Q"], 1)
            if group["normalize"]:
                way = way / (1e-30 + torch.mean(way**2) ** 0.5)
            step = state["step"]
            p.add_(way, alpha=-group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step))
            p.add_(p, alpha=-group["lr"] * group["weight_decay"])
            state["exp_avg"] = self.turn(state["exp_avg"], state["Q"], 1)
        for k, m in enumerate(state["GG"]):
            if m is not None:
                others = [d for d in range(g.dim()) if d != k]
                m.lerp_(torch.tensordot(g, g, dims=[others, others]), 1 - beta2)
        if is_first:
            state["Q"] = [None if m is None else torch.linalg.eigh(m + 1e-30 * torch.eye(len(m)))[1].flip(1) for m in state["GG"]]
        elif state["step"] % group["every"] == 0:
            for k, (m, q) in enumerate(zip(state["GG"], state["Q"])):
                if m is not None:
                    order = torch.argsort(torch.diag(q.T @ m @ q), descending=True)
                    state["exp_avg_sq"] = state["exp_avg_sq"].index_select(k, order)
                    state["Q"][k] = torch.linalg.qr(m @ q[:, order])[0]
        if not is_first:
            state["exp_avg"] = self.turn(state["exp_avg"], state["Q"], 0)


class Shampoo(torch.optim.Optimizer):
    """facebookresearch/optimizers, distributed_shampoo of 2026 with AdamPreconditionerConfig, without merged dimensions."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, momentum=0, nesterov=False, shampoo_beta=None, precondition_frequency=10, max_precond_dim=1024):
        beta = betas[1] if shampoo_beta is None else shampoo_beta
        super().__init__(params, dict(lr=lr, betas=betas, beta=beta, eps=eps, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, every=precondition_frequency, longest=max_precond_dim))

    @staticmethod
    def blocks(x, longest):
        parts = [x]
        for dim in range(x.dim()):
            parts = [piece for part in parts for piece in part.split(longest, dim)]
        return parts

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                blocks = [self.blocks(x, group["longest"]) for x in (p, p.grad)]
                for i, (part, g) in enumerate(zip(*blocks)):
                    self.step_of(part, g, self.state[p].setdefault(i, {}), group)

    def step_of(self, p, g, state, group):
        step, (beta1, beta2), beta, eps = group["step"], group["betas"], group["beta"], group["eps"]
        if not state:
            state.update(mean=torch.zeros_like(g), square=torch.zeros_like(g), buffer=torch.zeros_like(g))
            state.update(products=[torch.zeros(n, n) for n in g.shape], roots=[None for _ in g.shape])
        for k, m in enumerate(state["products"]):
            others = [d for d in range(g.dim()) if d != k]
            m.lerp_(torch.tensordot(g, g, dims=[others, others]), 1 - beta)
            if step % group["every"] == 0:
                values, vectors = torch.linalg.eigh(m / torch.tensor(1 - beta**step))
                values = values - values[0].clamp(max=0) + eps
                state["roots"][k] = vectors * values ** torch.tensor(-1 / (2 * g.dim())) @ vectors.T
        state["mean"].lerp_(g, 1 - beta1)
        state["square"].mul_(beta2).add_(g.square(), alpha=1 - beta2)
        even = state["mean"] / torch.tensor(1 - beta1**step)
        way = adam = even / (torch.sqrt(state["square"] / torch.tensor(1 - beta2**step)) + eps)
        if step >= group["every"]:
            way = even
            for root in state["roots"]:
                way = torch.tensordot(way, root, dims=[[0], [0]])
            way = way * (adam.square().sum().sqrt() / (way.square().sum().sqrt() + 1e-16))
        way = way.add(p, alpha=group["weight_decay"])
        if group["momentum"] != 0:
            state["buffer"].mul_(group["momentum"]).add_(way)
            way = way.add(state["buffer"], alpha=group["momentum"]) if group["nesterov"] else state["buffer"]
        p.add_(way, alpha=-group["lr"])


def made(case, model):
    if case["type"] == "shampoo":
        return [Shampoo(model.parameters(), **case["options"])]
    options = case["options"]
    if case["type"] == "prodigy":
        return [Prodigy(model.parameters(), **options)]
    if case["type"] == "soap":
        return [Soap(model.parameters(), **options)]
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
