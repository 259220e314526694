"""Models of bench gpu, from PyTorch alone where it has their parts: what a user exports, and what the script beside it trains.
`python3 models.py NAME OUT.pt2` exports one; its data goes to OUT.npz."""
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn

SAMPLES = 1344  # of a made-up data set, some of them for validation


class Block(nn.Module):
    """A transformer's block; a Llama's has RMS norm, a gated product and no biases."""

    def __init__(self, width, heads, causal=False, llama=False):
        super().__init__()
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.heads, self.causal, self.llama = heads, causal, llama
        self.norm1, self.norm2 = norm(width), norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=not llama)
        self.out = nn.Linear(width, width, bias=not llama)
        inner = width * 8 // 3 // 64 * 64 if llama else 4 * width
        self.up = nn.Linear(width, inner, bias=not llama)
        self.gate = nn.Linear(width, inner, bias=False) if llama else None
        self.down = nn.Linear(inner, width, bias=not llama)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        h = self.norm2(x)
        inner = F.silu(self.gate(h)) * self.up(h) if self.llama else F.gelu(self.up(h))
        return x + self.down(inner)


class Language(nn.Module):
    """Token ids to logits: GPT-2 (weights of the head are the embedding's), or a Llama of its size."""

    def __init__(self, llama=False, vocabulary=50304, context=1024, width=768, layers=12, heads=12):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = None if llama else nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True, llama=llama) for _ in range(layers))
        self.norm = (nn.RMSNorm if llama else nn.LayerNorm)(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids)
        if self.places is not None:
            x = x + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Classifier(nn.Module):
    """BERT-base over ids, or ViT-S over images of 224 x 224."""

    def __init__(self, vit=False, classes=2):
        super().__init__()
        width, heads = (384, 6) if vit else (768, 12)
        self.first = nn.Conv2d(3, width, 16, 16) if vit else nn.Embedding(30522, width)
        self.places = nn.Parameter(0.02 * torch.randn(1, 196 if vit else 128, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(12)])
        self.norm, self.head, self.vit = nn.LayerNorm(width), nn.Linear(width, classes), vit

    def forward(self, x):
        x = self.first(x)
        x = x.flatten(2).transpose(1, 2) if self.vit else x
        return self.head(self.norm(self.blocks(x + self.places)).mean(1))


def of_library(library, name):
    """torchvision's or timm's own."""
    if library == "timm":
        import timm

        return timm.create_model(name)
    import torchvision

    return getattr(torchvision.models, name)()


# What is built, the shape of a sample, and how many classes; ids where there is one size.
MODELS = {
    "gpt2": (lambda: Language(), (1024,), 50304),
    "llama": (lambda: Language(llama=True), (1024,), 50304),
    "bert": (lambda: Classifier(), (128,), 2),
    "vit": (lambda: Classifier(vit=True, classes=1000), (3, 224, 224), 1000),
    "resnet50": (lambda: of_library("torchvision", "resnet50"), (3, 224, 224), 1000),
    "convnext": (lambda: of_library("timm", "convnext_tiny"), (3, 224, 224), 1000),
    "efficientnet": (lambda: of_library("timm", "efficientnet_b0"), (3, 224, 224), 1000),
}


def batch_of(name, count, seed=0):
    """Samples and targets, made up."""
    _, shape, classes = MODELS[name]
    made = torch.Generator().manual_seed(seed)
    ids = len(shape) == 1
    x = torch.randint(0, 30000, (count, *shape), generator=made) if ids else torch.randn((count, *shape), generator=made)
    y = torch.randint(0, classes, (count, *shape) if classes == 50304 else (count,), generator=made)
    return x, y


def main():
    name, out = sys.argv[1:]
    torch.manual_seed(0)
    model = MODELS[name][0]().train()
    x, _ = batch_of(name, 4)
    batch = torch.export.Dim("batch", min=2, max=4096)
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=({0: batch},)), out)
    x, y = batch_of(name, 192 if name == "llama" else SAMPLES)
    numpy.savez(out.replace(".pt2", ".npz"), x=x.numpy(), y=y.numpy())


if __name__ == "__main__":
    main()
