"""Models that users bring: what the tests of exported programs export, and train beside."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as tv
from export_odd import ODD
from torchvision.models import segmentation, video


class Encoder(nn.Module):
    def __init__(self, vocabulary=50, width=32, length=12):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(torch.randn(1, length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.layers(self.embed(x) + self.place).mean(1))


class Decoder(nn.Module):
    """Decodes against a memory that it learns; a causal mask made in forward."""

    def __init__(self, width=32, length=10):
        super().__init__()
        self.memory = nn.Parameter(torch.randn(1, 6, width) * 0.1)
        layer = nn.TransformerDecoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerDecoder(layer, 2)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), diagonal=1)
        memory = self.memory.expand(x.shape[0], -1, -1)
        return self.head(self.layers(x, memory, tgt_mask=mask, tgt_is_causal=True))


class Attention(nn.Module):
    def __init__(self, width, heads, length, dropout, flash):
        super().__init__()
        self.heads, self.dropout, self.flash = heads, dropout, flash
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.resid_dropout = nn.Dropout(dropout)
        self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.flash:
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class GptBlock(nn.Module):
    def __init__(self, width, heads, length, dropout, flash):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, length, dropout, flash)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """In the manner of nanoGPT, with the embedding tied to the last layer."""

    def __init__(self, vocabulary=65, length=16, width=32, heads=4, layers=3, dropout=0.1, flash=True):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(length, width),
            "drop": nn.Dropout(dropout),
            "h": nn.ModuleList([GptBlock(width, heads, length, dropout, flash) for _ in range(layers)]),
            "ln_f": nn.LayerNorm(width),
        })
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx):
        T = idx.shape[1]
        pos = torch.arange(0, T, dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = getattr(nn, kind)(6, 20, 2, batch_first=True, dropout=0.1 if kind == "LSTM" else 0.0)
        self.head = nn.Linear(20, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Unet(nn.Module):
    def __init__(self, dims, channels=1, classes=1, width=8):
        super().__init__()
        conv = nn.Conv2d if dims == 2 else nn.Conv3d
        norm = nn.BatchNorm2d if dims == 2 else nn.InstanceNorm3d
        up = nn.ConvTranspose2d if dims == 2 else nn.ConvTranspose3d
        self.pool = nn.MaxPool2d(2) if dims == 2 else nn.MaxPool3d(2)

        def double(a, b):
            return nn.Sequential(
                conv(a, b, 3, padding=1), norm(b), nn.LeakyReLU(0.1, inplace=True),
                conv(b, b, 3, padding=1), norm(b), nn.LeakyReLU(0.1))

        self.down1, self.down2 = double(channels, width), double(width, 2 * width)
        self.bottom = double(2 * width, 4 * width)
        self.up2, self.up1 = up(4 * width, 2 * width, 2, stride=2), up(2 * width, width, 2, stride=2)
        self.merge2, self.merge1 = double(4 * width, 2 * width), double(2 * width, width)
        self.out = conv(width, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.bottom(self.pool(b))
        b = self.merge2(torch.cat([self.up2(c), b], 1))
        return self.out(self.merge1(torch.cat([self.up1(b), a], 1)))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 3, 2, 1), nn.Softplus(), nn.Flatten(), nn.Linear(256, 12))
        self.decoder = nn.Sequential(
            nn.Linear(12, 256), nn.Hardtanh(-2, 2), nn.Unflatten(1, (16, 4, 4)), nn.Upsample(scale_factor=2),
            nn.Conv2d(16, 8, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 1, 3, padding=1))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Graph(nn.Module):
    """Messages along fixed edges, added up at their ends."""

    def __init__(self, nodes=9, width=16):
        super().__init__()
        pairs = [(i, (i * 4 + j) % nodes) for i in range(nodes) for j in (1, 2)]
        self.register_buffer("edges", torch.tensor(pairs).t().contiguous(), persistent=False)
        self.message = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width))
        self.update = nn.Linear(3 + width, 1)

    def forward(self, x):
        a, b = self.edges[0], self.edges[1]
        sent = self.message(torch.cat([x[:, a], x[:, b]], -1))
        total = torch.zeros(x.shape[0], x.shape[1], sent.shape[-1]).index_add(1, b, sent)
        return self.update(torch.cat([x, total / 2], -1))[..., 0]


class Physics(nn.Module):
    """A field of positions and times, as in SIREN: powers, sines, and numbers in all places."""

    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, width)])
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.sin((30.0 if i == 0 else 1) * layer(x) + 0.5)
        y = self.last(x)
        return 1 - 2 * torch.exp(-(y ** 2)) + y.abs().clamp(min=1e-3).pow(1.5) / 3 - torch.where(y > 0, y, 0.1 * y)


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.rand(2, width, width, modes, modes, 2) / width**2)

    def forward(self, x):
        m = self.modes
        f = torch.fft.rfft2(x)
        out = torch.zeros(x.shape[0], x.shape[1], x.shape[2], x.shape[3] // 2 + 1, dtype=torch.cfloat, device=x.device)
        w = torch.view_as_complex(self.weight)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], w[0])
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], w[1])
        return torch.fft.irfft2(out, s=x.shape[-2:])


class Fno(nn.Module):
    """A Fourier neural operator in two dimensions."""

    def __init__(self, width=8, modes=4, layers=2):
        super().__init__()
        self.lift = nn.Conv2d(3, width, 1)
        self.spectral = nn.ModuleList([Spectral(width, modes) for _ in range(layers)])
        self.local = nn.ModuleList([nn.Conv2d(width, width, 1) for _ in range(layers)])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        ny, nx = x.shape[-2:]
        gy = torch.linspace(0, 1, ny).view(1, 1, ny, 1).expand(x.shape[0], 1, ny, nx)
        gx = torch.linspace(0, 1, nx).view(1, 1, 1, nx).expand(x.shape[0], 1, ny, nx)
        x = self.lift(torch.cat([x, gy, gx], 1))
        for spectral, local in zip(self.spectral, self.local):
            x = F.gelu(spectral(x) + local(x))
        return self.last(x)


class Experts(nn.Module):
    """A mixture of experts: the two best of four, weighted."""

    def __init__(self, width=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(8, experts)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.Linear(width, 4)) for _ in range(experts)])

    def forward(self, x):
        score, index = self.gate(x).topk(2, dim=-1)
        weight = score.softmax(-1)
        every = torch.stack([expert(x) for expert in self.experts], 1)
        chosen = every.gather(1, index[..., None].expand(-1, -1, every.shape[-1]))
        return (chosen * weight[..., None]).sum(1)


class Statistics(nn.Module):
    """A norm whose result nobody needs, statistics that forward reads, a metric that adds up, and a buffer in no state_dict."""

    def __init__(self, width=6):
        super().__init__()
        self.first, self.last = nn.Linear(7, width), nn.Linear(width, 1)
        self.seen, self.norm = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.register_buffer("total", torch.zeros(width))
        self.register_buffer("level", torch.zeros(width), persistent=False)

    def forward(self, x):
        z = self.first(x)
        self.seen(z)
        y = self.norm(z - self.level)
        self.total.add_(z.detach().mean(0))
        self.level.copy_(z.detach().mean(0))
        return self.last(torch.relu(y) - self.seen.running_mean)


def image(size=64, channels=3, batch=4):
    return {"shape": [batch, channels, size, size]}


def classes(below=10, batch=4, *more):
    return {"shape": [batch, *more], "below": below}


def numbers(*shape):
    return {"shape": list(shape)}


CLASSES, SEGMENTS, NUMBERS, TOKENS = "classification", "segmentation", "regression", "language"

# name: (module, task, input, target); `big` ones are left to the whole comparison.
MODELS = {
    "resnet18": (lambda: tv.resnet18(num_classes=10), CLASSES, image(), classes()),
    "resnet50": (lambda: tv.resnet50(num_classes=10), CLASSES, image(), classes()),
    "mobilenet_v3": (lambda: tv.mobilenet_v3_small(num_classes=10), CLASSES, image(), classes()),
    "efficientnet_b0": (lambda: tv.efficientnet_b0(num_classes=10), CLASSES, image(), classes()),
    "convnext_tiny": (lambda: tv.convnext_tiny(num_classes=10), CLASSES, image(), classes()),
    "vit_b_16": (lambda: tv.vit_b_16(image_size=32, num_classes=10), CLASSES, image(32), classes()),
    "swin_t": (lambda: tv.swin_t(num_classes=10), CLASSES, image(), classes()),
    "regnet": (lambda: tv.regnet_y_400mf(num_classes=10), CLASSES, image(), classes()),
    "densenet": (lambda: tv.densenet121(num_classes=10), CLASSES, image(), classes()),
    "squeezenet": (lambda: tv.squeezenet1_1(num_classes=10), CLASSES, image(), classes()),
    "shufflenet": (lambda: tv.shufflenet_v2_x0_5(num_classes=10), CLASSES, image(), classes()),
    "deeplabv3": (
        lambda: segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3),
        SEGMENTS, image(), classes(3, 4, 64, 64)),
    "fcn": (
        lambda: segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=3),
        SEGMENTS, image(32), classes(3, 4, 32, 32)),
    "r3d_18": (lambda: video.r3d_18(num_classes=10), CLASSES, numbers(2, 3, 4, 32, 32), classes(10, 2)),
    "encoder": (Encoder, CLASSES, {"shape": [4, 12], "below": 50}, classes(5)),
    "decoder": (Decoder, NUMBERS, numbers(4, 10, 32), numbers(4, 10, 3)),
    "gpt": (Gpt, TOKENS, {"shape": [4, 16], "below": 65}, {"shape": [4, 16], "below": 65}),
    "gpt_by_hand": (lambda: Gpt(flash=False), TOKENS, {"shape": [4, 16], "below": 65}, {"shape": [4, 16], "below": 65}),
    "lstm": (lambda: Recurrent("LSTM"), CLASSES, numbers(4, 9, 6), classes(3)),
    "gru": (lambda: Recurrent("GRU"), CLASSES, numbers(4, 9, 6), classes(3)),
    "unet": (lambda: Unet(2), NUMBERS, numbers(4, 1, 32, 32), numbers(4, 1, 32, 32)),
    "unet_3d": (lambda: Unet(3, width=4), NUMBERS, numbers(4, 1, 16, 16, 16), numbers(4, 1, 16, 16, 16)),
    "autoencoder": (Autoencoder, NUMBERS, numbers(4, 1, 16, 16), numbers(4, 1, 16, 16)),
    "graph": (Graph, NUMBERS, numbers(4, 9, 3), numbers(4, 9)),
    "physics": (Physics, NUMBERS, numbers(16, 2), numbers(16, 1)),
    "fno": (Fno, NUMBERS, numbers(4, 1, 16, 16), numbers(4, 1, 16, 16)),
    "experts": (Experts, CLASSES, numbers(8, 8), classes(4, 8)),
    "statistics": (Statistics, NUMBERS, numbers(8, 7), numbers(8, 1)),
    **ODD,
}


def made(of):
    return torch.randint(of["below"], of["shape"]) if "below" in of else torch.randn(of["shape"])


def build(name):
    torch.manual_seed(1)
    return MODELS[name][0]().train()


def export(name, path):
    torch.manual_seed(5)
    model = build(name)
    batch = torch.export.Dim("batch", min=2)
    (argument,) = list(__import__("inspect").signature(model.forward).parameters)[:1]
    example = (made(MODELS[name][2]),)
    try:
        program = torch.export.export(model, example, dynamic_shapes={argument: {0: batch}})
    except Exception:  # a model that fixes its batch
        program = torch.export.export(model, example)
    torch.export.save(program, path)
