"""Small exported programs, each with something of its own: what is refused, warned of, or easily done wrong."""
import json
import os
import sys
import zipfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._export.serde.serialize import serialize
from torch.export import Dim, export, save


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        y = self.layer(x)
        return torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,))


@torch.library.custom_op("mylab::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return torch.ops.mylab.twice(self.layer(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.drop(F.relu(self.norm(self.conv(x)))).mean((2, 3)))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, left, right):
        return self.layer(left) * self.layer(right)


class Counting(nn.Module):
    """Writes to a buffer in forward, and to a part of one."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("average", torch.zeros(2))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        y = self.layer(x)
        self.average.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        self.seen[1:2].add_(1)
        return y - self.average


class Sizes(nn.Module):
    """Works with sizes that are known only when it runs."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        half = x.shape[1] // 2
        a, b = x[:, :half], x[:, half:half * 2]
        z = torch.cat([a * half, b], -1).reshape(x.shape[0] * half, -1)
        return self.layer(z).reshape(x.shape[0], half, 2).mean(1) + torch.arange(2) / x.shape[1]


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.body.requires_grad_(False)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Scalars(nn.Module):
    """Numbers in all places that exported graphs have them in."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(0.2, 1.7, 30).reshape(6, 5))
        self.m = nn.Parameter(torch.linspace(-1, 1, 25).reshape(5, 5))

    def forward(self, x):
        x, m = x * self.w, self.m
        rows, b = torch.tensor([1, 4]), x[None].expand(2, 6, 5)
        steps = torch.arange(5)
        results = [
            x + 2, x - 1.5, 3 - x, x * 0.3, x / 3, 1 / x, x**2, x**3, x.abs() ** 0.7, 2**x, x * True,
            x.add(m[0], alpha=0.1), x.sub(x * 2, alpha=2), torch.rsub(x, 1.25, alpha=3), x + m[0],
            F.leaky_relu(x, 0.2), F.elu(x, 1.3), F.softplus(x, 2, 10), F.hardtanh(x, -0.5, 0.7), F.relu6(x * 9),
            F.threshold(x, 0.1, -3), F.celu(x, 1.2), F.softshrink(x, 0.2), F.hardshrink(x, 0.3), F.gelu(x),
            torch.addcmul(x, x, x.cos(), value=0.3), torch.addcdiv(x, x, x.exp(), value=-0.2),
            torch.addmm(x[0], x, m, beta=0.5, alpha=2), torch.baddbmm(b, b, m[None].expand(2, 5, 5), alpha=0.5),
            x.clamp(-0.4, 0.6), x.clamp(min=0), x.clamp_max(0.3), x.masked_fill(x > 0, -7.5),
            torch.where(x > 0, x, 0.5), torch.where(x > 0.1, 1.0, 0.25) * x, torch.where(x > 0.1, -2.0, x),
            x.remainder(0.7), x.fmod(0.4), torch.full_like(x, 2.5) * x, torch.full((5,), 3) * x, x.new_full((5,), 0.5) * x,
            x.var(1, keepdim=True), x.std(0, correction=0), F.normalize(x, dim=1), x.norm(dim=1, keepdim=True),
            F.pad(x, (1, 2), value=0.25), F.pad(x[None], (1, 1), mode="reflect"), steps * x, torch.arange(0.5, 5.5) * x,
            torch.arange(1, 11, 2) * x, torch.linspace(0.1, 0.9, 5) * x, (x > 0.1).float() * x, (x == 0.5).to(x.dtype),
            x.index_add(0, rows, x[:2], alpha=0.5), x.index_fill(0, rows, 0.3), x.scatter(0, rows[:, None].expand(2, 5), 0.4),
            (steps + 2)[None] * x, (steps[None] + torch.arange(6)[:, None]) * x, (steps // 2) * x, steps.remainder(3) * x,
            x[:, steps.flip(0)], x[rows], x.index_put((rows,), x[:2] * 2), x.cumsum(1), torch.tensor(3.0) * x,
            x.sum() * 2 + 1, (x.sum() + 2).pow(3), x.mean(0).abs().pow(1.5).nan_to_num(0.5), x.log_softmax(-1), x.roll(1, 0),
            torch.div(x, 0.3, rounding_mode="floor") * x, x.to(torch.float64).mul(0.1).float(), x.topk(2).values * 2,
        ]
        y = x * 1.0
        y.add_(1).mul_(0.5)
        y[:, 0].add_(x[:, 1], alpha=2)
        y[1:3] += y[0].clone()
        y[4] = 0.75
        y = y.t().contiguous().t()
        y.sub_(x * 0.1).div_(3).clamp_(-2, 2)
        y.masked_fill_(y > 1, 0)
        z = F.leaky_relu(y * 2, 0.1, inplace=True)
        return torch.cat([r.reshape(-1) for r in [*results, y, z]])


class Scaled(nn.Module):
    """Weights standardised by batch norm without running statistics, as NFNets do; one that looks at its own batch, too."""

    def __init__(self):
        super().__init__()
        self.conv, self.gain = nn.Conv2d(1, 4, 3, padding=1), nn.Parameter(torch.full((4,), 0.7))
        self.norm, self.head = nn.BatchNorm2d(4, track_running_stats=False), nn.Linear(4, 2)

    def forward(self, x):
        w = self.conv.weight
        w = F.batch_norm(w.reshape(1, 4, -1), None, None, weight=self.gain, training=True, momentum=0.0).reshape_as(w)
        return self.head(F.relu(self.norm(F.conv2d(x, w, self.conv.bias, padding=1))).mean((2, 3)))


class Deep(nn.Module):
    """Stochastic depth as transformers and timm write it."""

    def __init__(self, how):
        super().__init__()
        self.how, self.layers, self.head = how, nn.ModuleList([nn.Linear(3, 3) for _ in range(3)]), nn.Linear(3, 2)

    def dropped(self, x, keep):
        if not self.training:
            return x
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        if self.how == "floor":
            mask = keep + torch.rand(shape, dtype=x.dtype, device=x.device)
            mask.floor_()
            return x.div(keep) * mask
        return x * x.new_empty(shape).bernoulli_(keep).div_(keep)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = x + self.dropped(torch.tanh(layer(x)), 0.9 - 0.2 * i)
        return self.head(x)


class Drawing(nn.Module):
    """Draws in every way there is."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        y = self.layer(x)
        some = y.detach().abs() + 0.5
        drawn = [
            torch.empty_like(y).exponential_(), torch.bernoulli(some.clamp(max=1)), torch.empty_like(y).uniform_(0.1, 0.2),
            torch.multinomial(some, 2, replacement=True).float(), torch.poisson(some), torch._standard_gamma(some),
            torch.empty_like(y).log_normal_(), torch.empty_like(y).geometric_(0.3), torch.normal(some, 0.1),
        ]
        return y + sum(drawn) * 0.01


class Waves(nn.Module):
    """Weights that are complex numbers, as Fourier neural operators have them."""

    def __init__(self):
        super().__init__()
        self.lift, self.head = nn.Linear(3, 8), nn.Linear(8, 2)
        self.weight = nn.Parameter(torch.randn(5, 5, dtype=torch.cfloat) * 0.3)
        self.turn = nn.Parameter(torch.tensor(0.5 + 0.25j))

    def forward(self, x):
        waves = torch.fft.rfft(torch.tanh(self.lift(x))) @ self.weight
        return self.head(torch.fft.irfft(waves * self.turn, n=8))


class Spectral(nn.Module):
    """Weights divided by a norm whose vectors forward moves."""

    def __init__(self):
        super().__init__()
        def part():
            layer = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))
            return nn.Sequential(layer, nn.GELU(), nn.LayerNorm(6), nn.Tanh())

        self.parts, self.head = nn.ModuleList([part() for _ in range(3)]), nn.Linear(6, 2)

    def forward(self, x):
        for part in self.parts:
            x = x + part(x)
        return self.head(x)


def old_layout(program, path):
    """As torch.export.save wrote it before PyTorch 2.8."""
    parts = serialize(program)
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("serialized_exported_program.json", parts.exported_program)
        z.writestr("serialized_state_dict.pt", parts.state_dict)
        z.writestr("serialized_constants.pt", parts.constants)
        z.writestr("serialized_example_inputs.pt", parts.example_inputs)
        z.writestr("version", "8.2")


folder = json.load(sys.stdin)["folder"]
torch.set_num_threads(1)  # sums have the order of one thread on both sides
batch = {0: Dim("batch", min=2)}
image, row = torch.randn(4, 1, 8, 8), torch.randn(4, 3)


def made(name, model, example, shapes=None, write=save, mode=True):
    torch.manual_seed(1)
    program = export(model().train(mode), example, dynamic_shapes=shapes)
    path = os.path.join(folder, f"{name}.pt2")
    (write if write is old_layout else save)(program, path)
    return program


made("cond", Branch, (row,))
made("custom", Custom, (row,))
made("net", Net, (image,), {"x": batch})
made("fixed", Net, (image,))
made("evaluated", Net, (image,), {"x": batch}, mode=False)
made("old", Net, (image,), {"x": batch}, write=old_layout)
made("two", Two, (row, row), {"left": batch, "right": batch})
made("counting", Counting, (row,), {"x": batch})
made("frozen", Frozen, (row,), {"x": batch})
length = Dim("length", min=4, max=64)
made("sizes", Sizes, (torch.randn(4, 6, 4),), {"x": {0: Dim("batch", min=2), 1: 2 * Dim("half", min=2, max=32)}})
made("half", lambda: Frozen().bfloat16(), (row.bfloat16(),), {"x": batch})
torch.manual_seed(1)
lowered = export(Net().train(), (image,), dynamic_shapes={"x": batch}).run_decompositions({})
save(lowered, os.path.join(folder, "lowered.pt2"))

made("scaled", Scaled, (image,), {"x": batch})
made("deep_floor", lambda: Deep("floor"), (row,), {"x": batch})
made("deep_bernoulli", lambda: Deep("bernoulli"), (row,), {"x": batch})
made("drawing", Drawing, (row,), {"x": batch})
made("waves", Waves, (row,), {"x": batch})
made("spectral", Spectral, (torch.randn(4, 6),), {"x": batch})
made("scalars", Scalars, (torch.randn(6, 5),))

# What PyTorch itself gives for some of them.
answers = {}
torch.manual_seed(10)
m = Scalars()
y = m(torch.randn(6, 5))
y.square().mean().backward()
answers["scalars"] = {"output": y.tolist(), "gradients": [p.grad.flatten().tolist() for p in m.parameters()]}
for name, model, example in [("counting", Counting, row), ("sizes", Sizes, None)]:
    torch.manual_seed(1)
    m = model().train()
    outputs = []
    for step in range(3):
        torch.manual_seed(10 + step)
        x = torch.randn(4, 3) if name == "counting" else torch.randn(3, 10, 4)
        outputs.append([float(v) for v in m(x).flatten()])
    answers[name] = {"outputs": outputs, "buffers": {k: v.flatten().tolist() for k, v in m.named_buffers()}}
for name, model, shape in [("scaled", Scaled, (4, 1, 8, 8)), ("deep_floor", lambda: Deep("floor"), (4, 3)),
                           ("deep_bernoulli", lambda: Deep("bernoulli"), (4, 3))]:
    torch.manual_seed(1)
    m = model().train(False)
    torch.manual_seed(10)
    answers[name] = {"evaluated": m(torch.randn(shape)).flatten().tolist()}
torch.manual_seed(1)
m = Spectral()
torch.manual_seed(10)
x = torch.randn(4, 6)
F.mse_loss(m(x), torch.randn(4, 2)).backward()
answers["spectral"] = {"gradients": {k: p.grad.flatten().tolist() for k, p in m.named_parameters()},
                       "buffers": {k: b.flatten().tolist() for k, b in m.named_buffers()}}
torch.manual_seed(1)
m = Waves()
optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
losses = []
for step in range(5):
    torch.manual_seed(10 + step)
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    loss = F.mse_loss(m(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
answers["waves"] = {"losses": losses, "state": {k: [str(v.dtype), torch.view_as_real(v).flatten().tolist()]
                                                for k, v in m.state_dict().items() if v.is_complex()}}
tagged = []
for packet in dir(torch.ops.aten):
    for overload in getattr(torch.ops.aten, packet).overloads() if hasattr(getattr(torch.ops.aten, packet), "overloads") else []:
        if torch.Tag.nondeterministic_seeded in getattr(getattr(torch.ops.aten, packet), overload).tags:
            tagged.append([packet, "" if overload == "default" else overload])
answers["drawing"] = {"tagged": tagged}
json.dump({"torch": torch.__version__, "answers": answers}, sys.stdout)
