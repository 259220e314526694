"""Models with what real ones have that a graph can trip over: odd windows and sizes, masks, counters, parametrised weights,
shared and viewed memory, complex numbers, and many types of numbers."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations
from torchvision.models import SwinTransformer


def swin():
    """Windows of 5 over maps of 14: padded, rolled, masked."""
    return SwinTransformer(
        patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[3, 6], window_size=[5, 5],
        stochastic_depth_prob=0.1, num_classes=10)


class Bert(nn.Module):
    """Padding is masked, by adding the least number there is; position biases in logarithmic buckets; tied output."""

    def __init__(self, vocabulary=30, width=32, heads=4, length=12, layers=2):
        super().__init__()
        self.heads = heads
        self.words, self.kinds = nn.Embedding(vocabulary, width, padding_idx=0), nn.Embedding(2, width)
        self.register_buffer("token_type_ids", torch.zeros(1, length, dtype=torch.long), persistent=False)
        self.register_buffer("position_ids", torch.arange(length)[None])
        self.relative = nn.Embedding(8, heads)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([nn.ModuleDict({
            "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "n1": nn.LayerNorm(width, eps=1e-12),
            "up": nn.Linear(width, 64), "down": nn.Linear(64, width), "n2": nn.LayerNorm(width, eps=1e-12),
        }) for _ in range(layers)])
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def buckets(self, length):
        place = self.position_ids[0, :length]
        far = place[None, :] - place[:, None]
        size = far.abs().clamp(min=1).float()
        large = (torch.log(size) / math.log(length) * 3).to(torch.long) + 1
        return torch.where(far > 0, 4, 0) + torch.minimum(large, torch.full_like(large, 3)) * (far != 0)

    def forward(self, ids):
        B, T = ids.shape
        seen = (ids != 0).to(torch.float32)
        mask = (1.0 - seen[:, None, None, :]) * torch.finfo(torch.float32).min
        mask = mask + self.relative(self.buckets(T)).permute(2, 0, 1)[None]
        x = self.norm(self.words(ids) + self.kinds(self.token_type_ids[:, :T].expand(B, T)))
        for layer in self.layers:
            q, k, v = layer["qkv"](x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            score = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.size(-1)) + mask
            mixed = torch.matmul(F.dropout(score.softmax(-1), 0.1, self.training), v).transpose(1, 2).reshape(B, T, -1)
            x = layer["n1"](x + layer["out"](mixed))
            x = layer["n2"](x + layer["down"](F.gelu(layer["up"](x), approximate="tanh")))
        return F.linear(x * seen[..., None], self.words.weight, self.bias)


class OddUnet(nn.Module):
    """Sizes that do not halve, so each way up goes to the size of what was passed by; weights that are made from others."""

    def __init__(self, width=6):
        super().__init__()
        self.down1 = parametrizations.weight_norm(nn.Conv2d(2, width, 3, padding=1, padding_mode="reflect"))
        self.down2 = parametrizations.spectral_norm(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1))
        self.norm, self.act = nn.GroupNorm(3, 2 * width), nn.PReLU(2 * width)
        self.down3 = nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=2, dilation=2, groups=2)
        self.merge = parametrizations.orthogonal(nn.Linear(2 * width, 2 * width))
        self.up = nn.Conv2d(5 * width, 1, 1)

    def forward(self, x):
        a = F.silu(self.down1(x))
        b = self.act(self.norm(self.down2(a)))
        c = self.merge(self.down3(b).movedim(1, -1)).movedim(-1, 1)
        c = F.interpolate(c, size=b.shape[-2:], mode="bilinear", align_corners=False)
        c = F.interpolate(torch.cat([c, b], 1), size=a.shape[-2:], mode="bicubic", align_corners=True)
        return self.up(torch.cat([c, F.adaptive_avg_pool2d(a, a.shape[-2:])], 1))


class Codebook(nn.Module):
    """Quantised by a codebook that moves as averages do; counters of whole numbers; a straight-through estimate."""

    def __init__(self, codes=8, width=6):
        super().__init__()
        self.into, self.out = nn.Linear(5, width), nn.Linear(width, 3)
        self.register_buffer("codes", torch.randn(codes, width))
        self.register_buffer("used", torch.zeros(codes, dtype=torch.long))
        self.register_buffer("average", torch.ones(codes))
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("warm", torch.tensor(False))

    def forward(self, x):
        z = self.into(x)
        far = z.pow(2).sum(1, keepdim=True) - 2 * z @ self.codes.t() + self.codes.pow(2).sum(1)
        index = far.argmin(1)
        with torch.no_grad():
            hot = F.one_hot(index, self.codes.shape[0])
            self.used += hot.sum(0)
            self.steps += 1
            self.warm.logical_or_(self.steps > 3)
            self.average.mul_(0.9).add_(hot.sum(0), alpha=0.1)
            self.codes.lerp_(hot.t().float() @ z / self.average.clamp(min=0.5)[:, None], 0.05)
        q = F.embedding(index, self.codes)
        return self.out(z + (q - z).detach()) + (z - q).pow(2).mean() * torch.where(self.warm, 0.5, 0.25)


class Memory(nn.Module):
    """One weight both ways, windows that overlap in memory, and results that are scattered to where they belong."""

    def __init__(self, width=12, window=4):
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(8, width) * 0.2), nn.Parameter(torch.ones(3))
        self.window = window
        self.register_buffer("group", torch.tensor([0, 1, 2, 1, 0, 2, 2, 1, 0]), persistent=False)

    def forward(self, x):
        B, width = x.shape
        count = width - self.window + 1
        windows = x.contiguous().as_strided((B, count, self.window), (width, 1, 1))
        again = x.unfold(1, self.window, 1)
        peaks = (windows * again).amax(-1)
        group = self.group.expand(B, -1)
        total = torch.zeros(B, 3).scatter_add(1, group, peaks)
        largest = torch.full((B, 3), -10.0).scatter_reduce(1, group, peaks, "amax", include_self=True)
        means = torch.zeros(B, 3).index_reduce(1, self.group, peaks, "mean", include_self=False)
        hidden = torch.tanh(F.linear(x, self.weight))
        back = F.linear(hidden, self.weight.t())
        order = back.sort(dim=-1, descending=True).indices
        back = back.clone().masked_scatter(back > 1, back.detach() * 0.5)
        sorted_ = torch.take_along_dim(back, order, -1)
        place = torch.bucketize(x.detach(), torch.linspace(-1, 1, 5))
        bins = torch.zeros(B, 6).scatter_(1, place, 0.25, reduce="add")
        y = torch.einsum("bi,bj,k->bk", total, means, self.scale) * 0.001 + largest * 0.02
        return y + torch.tanh(sorted_[:, :3]).cumprod(1) + bins[:, 1:4] + torch.logcumsumexp(back * 0.1, 1)[:, :3] * 0.1


class Waves(nn.Module):
    """Spectra of sound, weights of complex numbers, and back."""

    def __init__(self, size=32):
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size))
        self.filter = nn.Parameter(torch.randn(size // 2 + 1, 1, 2) * 0.3)
        self.mix = nn.Parameter(torch.randn(4, 2) * 0.3)
        self.head = nn.Linear(size // 2 + 1, 4)

    def forward(self, x):
        spectrum = torch.stft(x, self.size, self.size // 4, window=self.window, return_complex=True)
        shaped = spectrum * torch.view_as_complex(self.filter)
        power = torch.log1p(shaped.abs().pow(2)).mean(-1)
        sound = torch.istft(shaped, self.size, self.size // 4, window=self.window, length=x.shape[-1])
        whole = torch.fft.fftshift(torch.fft.fft(sound, norm="ortho"), dim=-1)[:, :4]
        turned = whole * torch.polar(torch.sigmoid(self.mix[:, 0]), self.mix[:, 1])
        return self.head(power) + turned.real * 0.5 + turned.conj().imag + turned.angle().cos() * 0.1


class Types(nn.Module):
    """Numbers of many types, and norms and spreads of many orders."""

    def __init__(self):
        super().__init__()
        self.layer, self.kind = nn.Linear(6, 6), nn.Embedding(5, 6)
        self.register_buffer("table", torch.arange(-3, 3, dtype=torch.int8))
        self.register_buffer("wide", torch.linspace(0, 1, 6, dtype=torch.float64))

    def forward(self, x):
        y = self.layer(x)
        kind = (x[:, 0] * 2).floor().to(torch.int32).remainder(5)
        y = y + self.kind(kind.long()) + self.table * 0.1 + (x > 0) * 0.5 + (x > 0.5).sum(1, keepdim=True)
        y = y + (y.double() * self.wide).float() + (y.bfloat16() * 2).float() * 0.01 + y.half().float() * 0.1
        norms = [y.norm(1, dim=1), y.norm(float("inf"), dim=1), F.normalize(y, p=1, dim=1)[:, 0], y.norm(3, dim=1),
                 torch.linalg.vector_norm(y, 1), torch.linalg.vector_norm(y, 4, dim=(0, 1)), torch.linalg.vector_norm(y, 0, dim=1)]
        spread = [y.var(1, correction=2), y.std(1, correction=0.5), torch.var_mean(y, 1, correction=3)[0]]
        more = [y.logsumexp(1), y.median(1).values, y.kthvalue(2, 1).values, y.quantile(0.3, 1), y.prod(1).abs().log1p(),
                torch.trapezoid(y, dx=0.5, dim=1), y.diff(dim=1).square().mean(1), y.tril(1).sum(1), y.cummax(1).values[:, -1],
                torch.nan_to_num(1 / y.round(), 0, 1, -1).mean(1), y.frac().sum(1), torch.copysign(y, x).sum(1),
                F.cosine_similarity(y, x), F.pairwise_distance(y, x), torch.heaviside(x, self.wide.float()).sum(1),
                (y * 5).to(torch.uint8).clamp(max=7).float().sum(1) * 0, torch.full((), 2) * y[:, 1], y.clamp(x - 1, x + 1).mean(1)]
        parts = [part.expand(y.shape[0])[:, None] for part in [*norms, *spread, *more]]
        return torch.cat([y, *parts], 1).sum(1, keepdim=True) * 0.05


ODD = {
    "swin_odd": (swin, "classification", {"shape": [4, 3, 56, 56]}, {"shape": [4], "below": 10}),
    "bert": (Bert, "language", {"shape": [4, 12], "below": 30}, {"shape": [4, 12], "below": 30}),
    "unet_odd": (OddUnet, "regression", {"shape": [4, 2, 33, 35]}, {"shape": [4, 1, 33, 35]}),
    "codebook": (Codebook, "regression", {"shape": [8, 5]}, {"shape": [8, 3]}),
    "memory": (Memory, "regression", {"shape": [8, 12]}, {"shape": [8, 3]}),
    "waves": (Waves, "regression", {"shape": [4, 128]}, {"shape": [4, 4]}),
    "types": (Types, "regression", {"shape": [8, 6]}, {"shape": [8, 1]}),
}
