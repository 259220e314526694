"""The benchmark's models as a PyTorch user who cares for speed writes them: no dropout that does nothing, fused optimizers."""
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp():
    return nn.Sequential(nn.Linear(7, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.m_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.c_attn(self.ln_1(x)).split(c, 2)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.m_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, tokens=65, context=64, layers=4, width=128, heads=4):
        super().__init__()
        self.wte = nn.Embedding(tokens, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, tokens, bias=False)
        self.lm_head.weight = self.wte.weight
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, 0.0, 0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)
        for block in self.h:
            nn.init.normal_(block.c_proj.weight, 0.0, 0.02 / math.sqrt(2 * layers))
            nn.init.normal_(block.m_proj.weight, 0.0, 0.02 / math.sqrt(2 * layers))

    def forward(self, x):
        x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def resnet18():
    import torchvision  # only here: importing it costs the other models nothing

    return torchvision.models.resnet18(num_classes=10)


class Convnet(nn.Module):
    """PyTorch's MNIST example without dropout."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class Cosmo(nn.Module):
    def __init__(self, filters=16):
        super().__init__()
        stages, channels = [], 1
        for factor in (1, 2, 4, 4):
            out = filters * factor
            conv = nn.Conv2d(channels, out, 3, padding=1, bias=False)
            stages += [conv, nn.BatchNorm2d(out), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            channels = out
        self.features = nn.Sequential(*stages)
        self.head = nn.Sequential(nn.Linear(channels, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class Layers(nn.Module):
    def __init__(self, widths, act):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.act = act

    def through(self, x):
        for layer in self.layers[:-1]:
            x = self.act(layer(x))
        return self.layers[-1](x)

    forward = through


class Heat(Layers):
    """The residual of the heat equation, u_t - u_xx, of a network of (x, t)."""

    def forward(self, points):
        points = points.detach().requires_grad_()
        slope = torch.autograd.grad(self.through(points).sum(), points, create_graph=True)[0]
        bend = torch.autograd.grad(slope[:, 0:1].sum(), points, create_graph=True)[0][:, 0:1]
        return slope[:, 1:2] - bend


class Euler(Layers):
    def forward(self, x):
        for _ in range(8):
            x = x + 0.125 * self.through(x)
        return x


def tokens(*shape):
    return torch.randint(0, 65, shape)


def cross_entropy(output, target):
    return F.cross_entropy(output.view(-1, output.shape[-1]), target.view(-1))


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=True)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)


# Name: model, input and target, loss, optimizer, threads (0: every core).
WORKLOADS = {
    "mlp": (mlp, lambda: (torch.randn(32, 7), torch.randn(32, 1)), F.mse_loss, adamw, 1),
    "gpt": (Gpt, lambda: (tokens(12, 64), tokens(12, 64)), cross_entropy, adamw, 0),
    "icenet": (lambda: Layers([20, 256, 256, 128, 1], F.relu), lambda: (torch.randn(64, 20), torch.randn(64, 1)), F.mse_loss, adamw, 1),
    "tanh": (lambda: Layers([7, 128, 128, 1], torch.tanh), lambda: (torch.randn(256, 7), torch.randn(256, 1)), F.mse_loss, adamw, 1),
    "pinn": (lambda: Heat([2, 64, 64, 1], torch.tanh), lambda: (torch.randn(128, 2), torch.randn(128, 1)), F.mse_loss, adamw, 1),
    "ode": (lambda: Euler([16, 64, 16], torch.tanh), lambda: (torch.randn(64, 16), torch.randn(64, 16)), F.mse_loss, adamw, 1),
    "convnet": (Convnet, lambda: (torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))), cross_entropy, adamw, 0),
    "cosmo": (Cosmo, lambda: (torch.randn(32, 1, 64, 64), torch.randn(32, 2)), F.mse_loss, adamw, 0),
    "resnet18": (resnet18, lambda: (torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))), cross_entropy, sgd, 0),
}


def prepare(name, compiled=None, threads=None):
    """The function that trains one step and returns its loss, on the device. `compiled` is a mode of torch.compile."""
    make, batch, loss_of, optimizer_for, usual = WORKLOADS[name]
    torch.set_num_threads(threads or usual or len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    model = make()
    torch.manual_seed(1)
    x, y = batch()
    optimizer = optimizer_for(model.parameters())
    run = torch.compile(model, mode=compiled) if compiled else model

    def step():
        loss = loss_of(run(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    step.parameters = sum(p.numel() for p in model.parameters())
    return step
