"""The models of `hpctrain models` as a PyTorch user would write them.

Their state dicts have the same names, so the weights of `hpctrain export run_best.pt weights.pt` go straight in:

    model = zoo_models.gpt(vocabulary=65, context=64, layers=2, heads=4, embed=128)
    model.load_state_dict(torch.load("weights.pt", weights_only=True))

Tests hold both sides to the same initial weights, outputs and gradients, bit for bit.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision


def mlp(inputs, hidden, layers, outputs, dropout=0.0):
    widths = [inputs] + [hidden] * layers
    parts = []
    for a, b in zip(widths, widths[1:]):
        parts += [nn.Linear(a, b), nn.Sequential(nn.ReLU(), nn.Dropout(dropout))]
    return nn.Sequential(*parts, nn.Linear(widths[-1], outputs))


class simple_convnet(nn.Module):
    """The MNIST example of PyTorch, for any image size."""

    def __init__(self, channels, height, width, outputs, dropout=None):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25 if dropout is None else dropout)
        self.dropout2 = nn.Dropout(0.5 if dropout is None else dropout)
        self.fc1 = nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128)
        self.fc2 = nn.Linear(128, outputs)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc2(self.dropout2(x))


def resnet(name, channels, outputs):
    model = getattr(torchvision.models, name)
    if channels == 3:
        return model(num_classes=outputs)

    class Other(nn.Conv2d):
        """torchvision has no setting for channels: its first convolution gets ours in the place of 3."""

        def __init__(self, inplanes, *rest, **options):
            super().__init__(channels if inplanes == 3 else inplanes, *rest, **options)

    original, torchvision.models.resnet.nn.Conv2d = torchvision.models.resnet.nn.Conv2d, Other
    try:
        return model(num_classes=outputs)
    finally:
        torchvision.models.resnet.nn.Conv2d = original


def pad(x, sizes, mode):
    """F.pad, which knows no map of the Earth: circular in longitude, the edge's own values beyond the poles."""
    if mode == "longitude":
        left, right, *others = sizes
        return F.pad(F.pad(x, (0, 0, *others), "replicate"), (left, right, *(0 for _ in others)), "circular")
    return F.pad(x, sizes, "constant" if mode == "zeros" else mode)


class Conv3x3(nn.Conv2d):
    def __init__(self, into, out, padding, bias=False):
        plain = padding != "longitude"
        super().__init__(into, out, 3, padding=1 if plain else 0, bias=bias, padding_mode=padding if plain else "zeros")
        self.plain = plain

    def forward(self, x):
        return super().forward(x if self.plain else pad(x, (1, 1, 1, 1), "longitude"))


class cosmo_cnn(nn.Module):
    def __init__(self, channels, height, width, filters, outputs, dropout=0.0, padding="zeros"):
        super().__init__()
        self.features = nn.Sequential()
        side, into = min(height, width), channels
        for stage, factor in enumerate((1, 2, 4, 4)):
            if side < 2:
                break
            self.features.append(nn.Sequential(
                Conv3x3(into, filters * factor, padding),
                nn.BatchNorm2d(filters * factor),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ))
            into, side = filters * factor, side // 2
        self.head = nn.Sequential(nn.Linear(into, 64), nn.Sequential(nn.ReLU(), nn.Dropout(dropout)), nn.Linear(64, outputs))

    def forward(self, x):
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


def layers_of(dims):
    return (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, F.max_pool2d) if dims == 2 else (
        nn.Conv3d, nn.ConvTranspose3d, nn.BatchNorm3d, F.max_pool3d)


class Conv3x3x3(nn.Conv3d):
    def __init__(self, into, out, padding):
        plain = padding != "longitude"
        super().__init__(into, out, 3, padding=1 if plain else 0, bias=False, padding_mode=padding if plain else "zeros")
        self.plain = plain

    def forward(self, x):
        return super().forward(x if self.plain else pad(x, (1, 1, 1, 1, 1, 1), "longitude"))


def conv_norm(into, out, dims):
    conv, _, norm, _ = layers_of(dims)
    return nn.Sequential(conv(into, out, 1, bias=False), norm(out))


class DoubleConv(nn.Sequential):
    def __init__(self, into, out, padding, dropout, dims=2, residual=False):
        conv, norm = (Conv3x3, nn.BatchNorm2d) if dims == 2 else (Conv3x3x3, nn.BatchNorm3d)
        super().__init__(
            conv(into, out, padding), norm(out), nn.ReLU(),
            conv(out, out, padding), norm(out), nn.ReLU(), nn.Dropout(dropout),
        )
        self.residual = residual
        if residual and into != out:
            self.shortcut = conv_norm(into, out, dims)

    def forward(self, x):
        y = x
        for layer in list(self)[:5]:
            y = layer(y)
        if self.residual:
            y = y + (self.shortcut(x) if hasattr(self, "shortcut") else x)
        return self[6](self[5](y))

    def __iter__(self):
        return (module for name, module in self._modules.items() if name != "shortcut")


class Gate(nn.Module):
    """The gate of Attention U-Net (Oktay et al. 2018): what comes from below says which points of a skip count."""

    def __init__(self, width, dims):
        super().__init__()
        inner = max(1, width // 2)
        self.below, self.skip = conv_norm(width, inner, dims), conv_norm(width, inner, dims)
        self.share = conv_norm(inner, 1, dims)

    def forward(self, below, skip):
        return skip * torch.sigmoid(self.share(F.relu(self.below(below) + self.skip(skip))))


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        points = self.norm(x.flatten(2).transpose(1, 2))
        seen, _ = self.attention(points, points, points, need_weights=False)
        return x + seen.transpose(1, 2).reshape(x.shape)


class unet(nn.Module):
    def __init__(self, channels, filters, outputs, depth=3, padding="zeros", dropout=0.0, dims=2, residual=False,
                 attention="none", heads=4):
        super().__init__()
        conv, transposed, _, self.pool = layers_of(dims)
        self.multiple, self.padding = 2**depth, padding
        widths = [filters * 2**level for level in range(depth + 1)]
        double = lambda a, b: DoubleConv(a, b, padding, dropout, dims, residual)
        self.down = nn.ModuleList(
            double(a, b) for a, b in zip([channels] + widths[: depth - 1], widths[:depth])
        )
        self.bottom = double(widths[depth - 1], widths[depth])
        if attention == "bottom":
            self.attention = SelfAttention(widths[depth], heads)
        self.up = nn.ModuleList(
            nn.ModuleDict({
                "upsample": transposed(widths[level + 1], widths[level], 2, stride=2),
                **({"gate": Gate(widths[level], dims)} if attention == "gates" else {}),
                "conv": double(2 * widths[level], widths[level]),
            })
            for level in reversed(range(depth))
        )
        self.head = conv(filters, outputs, 1)

    def forward(self, x):
        sides = x.shape[2:]
        missing = [-side % self.multiple for side in sides]
        if any(missing):
            sizes = [(places // 2, places - places // 2) for places in reversed(missing)]
            x = pad(x, sum(sizes, ()), self.padding)
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = self.pool(x, 2)
        x = self.bottom(x)
        if hasattr(self, "attention"):
            x = self.attention(x)
        for up in self.up:
            x, skip = up["upsample"](x), skips.pop()
            if "gate" in up:
                skip = up["gate"](x, skip)
            x = up["conv"](torch.cat([skip, x], 1))
        return self.head(x)[(..., *(slice(places // 2, places // 2 + side) for places, side in zip(missing, sides)))]


class ConvLstmLayer(nn.Module):
    """The gates are torch.nn.LSTM's, in its order: input, forget, cell, output."""

    def __init__(self, into, filters, padding, dropout):
        super().__init__()
        self.input = Conv3x3(into, 4 * filters, padding, bias=True)
        self.hidden = Conv3x3(filters, 4 * filters, padding)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        seen = self.input(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        states, hidden, cell = [], None, None
        for step in range(x.shape[1]):
            gates = seen[:, step] if hidden is None else seen[:, step] + self.hidden(hidden)
            i, f, g, o = gates.chunk(4, 1)
            fresh = torch.sigmoid(i) * torch.tanh(g)
            cell = fresh if cell is None else torch.sigmoid(f) * cell + fresh
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            states.append(hidden)
        return states


class convlstm(nn.Module):
    """Convolutional LSTM (Shi et al. 2015); the state after the last step gives the answer."""

    def __init__(self, channels, steps, filters, layers, outputs, padding="zeros", dropout=0.0):
        super().__init__()
        self.steps, self.each = steps, channels // steps
        first = self.each + channels % steps
        self.layers = nn.ModuleList(
            ConvLstmLayer(filters if i else first, filters, padding, dropout) for i in range(layers)
        )
        self.head = nn.Conv2d(filters, outputs, 1)

    def forward(self, x):
        own = self.steps * self.each
        common = x[:, None, own:].expand(-1, self.steps, -1, -1, -1)
        x = x[:, :own].unflatten(1, (self.steps, self.each))
        if common.shape[2]:
            x = torch.cat([x, common], 2)
        for i, layer in enumerate(self.layers):
            states = layer(x)
            last = i == len(self.layers) - 1
            x = layer.dropout(states[-1] if last else torch.stack(states, 1))
        return self.head(x)


class Spectral(nn.Module):
    """Each low frequency has a matrix of its own from channels to channels; higher ones are cut off."""

    def __init__(self, filters, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * modes, modes, filters, filters, 2))
        nn.init.normal_(self.weight, 0, math.sqrt(1 / (2 * filters)))

    def forward(self, x):
        n, c, h, w = x.shape
        rows, modes, *_ = self.weight.shape
        low = torch.fft.rfft2(x)[..., :modes]
        low = torch.cat([low[:, :, :modes], low[:, :, h - modes :]], 2)
        changed = torch.bmm(low.permute(2, 3, 0, 1).reshape(-1, n, c), torch.view_as_complex(self.weight).reshape(-1, c, c))
        changed = changed.reshape(rows, modes, n, c).permute(2, 3, 0, 1)
        beyond = w // 2 + 1 - modes
        above = F.pad(changed[:, :, :modes], (0, beyond, 0, h - rows))
        below = F.pad(changed[:, :, modes:], (0, beyond))
        return torch.fft.irfft2(torch.cat([above, below], 2), (h, w))


class FourierLayer(nn.Module):
    def __init__(self, filters, modes):
        super().__init__()
        self.spectral, self.local = Spectral(filters, modes), nn.Conv2d(filters, filters, 1)

    def forward(self, x):
        return self.spectral(x) + self.local(x)


class fno(nn.Module):
    """The Fourier neural operator of Li et al. 2021, whose inputs know where they are."""

    def __init__(self, channels, filters, layers, modes, outputs):
        super().__init__()
        self.lift = nn.Conv2d(channels + 2, filters, 1)
        self.layers = nn.ModuleList(FourierLayer(filters, modes) for _ in range(layers))
        self.head = nn.Sequential(nn.Conv2d(filters, 128, 1), nn.GELU(), nn.Conv2d(128, outputs, 1))

    def forward(self, x):
        n, _, h, w = x.shape
        rows, columns = torch.meshgrid(*(torch.full((side,), 1 / side).cumsum(0) for side in (h, w)), indexing="ij")
        x = self.lift(torch.cat([x, torch.stack([rows, columns]).expand(n, -1, -1, -1)], 1))
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < len(self.layers) - 1:
                x = F.gelu(x)
        return self.head(x)


class Attention(nn.Module):
    def __init__(self, embed, heads, dropout, bias):
        super().__init__()
        self.c_attn = nn.Linear(embed, 3 * embed, bias=bias)
        self.c_proj = nn.Linear(embed, embed, bias=bias)
        self.resid_dropout = nn.Dropout(dropout)
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=p, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c)))


class Mlp(nn.Module):
    def __init__(self, embed, dropout, bias):
        super().__init__()
        self.c_fc = nn.Linear(embed, 4 * embed, bias=bias)
        self.c_proj = nn.Linear(4 * embed, embed, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Layer(nn.Module):
    def __init__(self, embed, heads, dropout, bias):
        super().__init__()
        self.ln_1 = nn.LayerNorm(embed, bias=bias)
        self.attn = Attention(embed, heads, dropout, bias)
        self.ln_2 = nn.LayerNorm(embed, bias=bias)
        self.mlp = Mlp(embed, dropout, bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class gpt(nn.Module):
    """nanoGPT's model."""

    def __init__(self, vocabulary, context, layers, heads, embed, dropout=0.0, bias=True):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocabulary, embed),
            wpe=nn.Embedding(context, embed),
            drop=nn.Dropout(dropout),
            h=nn.ModuleList([Layer(embed, heads, dropout, bias) for _ in range(layers)]),
            ln_f=nn.LayerNorm(embed, bias=bias),
        ))
        self.lm_head = nn.Linear(embed, vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self.initialise)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * layers))

    def initialise(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, tokens):
        positions = torch.arange(0, tokens.size(1), dtype=torch.long)
        x = self.transformer.drop(self.transformer.wte(tokens) + self.transformer.wpe(positions))
        for layer in self.transformer.h:
            x = layer(x)
        return self.lm_head(self.transformer.ln_f(x))


class Vit(torchvision.models.VisionTransformer):
    """torchvision's, for images of any sides, which are padded to whole patches."""

    def __init__(self, height, width, patch, padding, **options):
        count = -(height // -patch) * -(width // -patch)
        module, original = torchvision.models.vision_transformer, torchvision.models.vision_transformer.Encoder
        module.Encoder = lambda seq_length, *rest: original(count + 1, *rest)
        try:
            super().__init__(image_size=patch, patch_size=patch, **options)
        finally:
            module.Encoder = original
        rows, columns = -height % patch, -width % patch
        self.frame = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)
        self.padding = padding

    def _process_input(self, x):
        if any(self.frame):
            x = pad(x, self.frame, self.padding)
        return self.conv_proj(x).flatten(2).permute(0, 2, 1)


def convnext_tiny(width, outputs):
    """Stochastic depth, which torchvision's own convnext_tiny has in training, is left out."""
    Stage = torchvision.models.convnext.CNBlockConfig
    stages = [Stage(width << i, width << i + 1 if i < 3 else None, count) for i, count in enumerate((3, 3, 9, 3))]
    return torchvision.models.ConvNeXt(stages, num_classes=outputs)


def vit(image, patch, layers, heads, embed, outputs, dropout=0.0, padding="zeros"):
    height, width = image if isinstance(image, (list, tuple)) else (image, image)
    options = {"num_layers": layers, "num_heads": heads, "hidden_dim": embed, "mlp_dim": 4 * embed}
    options.update(dropout=dropout, num_classes=outputs)
    if height == width and height % patch == 0:
        return torchvision.models.VisionTransformer(image_size=height, patch_size=patch, **options)
    return Vit(height, width, patch, padding, **options)
