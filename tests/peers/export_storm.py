"""Small exported programs that between them use most kinds of operations: what a storm of changed graphs begins with."""
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim, export, save
from torch.func import vmap


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(1, 4, 3, padding=1), nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.norm, self.group, self.inst = nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)
        self.drop, self.depth = nn.Dropout(0.2), nn.Conv2d(4, 4, 3, groups=4, padding="same", padding_mode="reflect")
        self.head = nn.Linear(2, 2)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)), inplace=True)
        y = self.inst(self.group(self.depth(y)))
        p, at = F.max_pool2d(y, 2, return_indices=True)
        y = F.max_unpool2d(p, at, 2) + F.interpolate(F.avg_pool2d(y, 2), scale_factor=2, mode="bilinear")
        y = F.interpolate(y, size=(8, 8), mode="bicubic") + F.adaptive_max_pool2d(y, 8) + F.adaptive_avg_pool2d(y, 1)
        y = y + F.fold(F.unfold(y, 3, padding=1), (8, 8), 3, padding=1)
        grid = F.affine_grid(torch.eye(2, 3)[None].expand(y.shape[0], 2, 3), list(y.shape), align_corners=False)
        y = F.grid_sample(y, grid, align_corners=False) + F.pad(y, (1, 1, 1, 1), mode="replicate")[:, :, 1:-1, 1:-1]
        y = F.pixel_unshuffle(F.pixel_shuffle(y, 2), 2)
        y = F.local_response_norm(self.up(self.drop(y)), 2)
        y = F.lp_pool2d(y, 2, 2) + F.conv_transpose2d(y, y.new_ones(2, 2, 1, 1))[:, :, ::2, ::2]
        return self.head(y.mean((2, 3)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.bag = nn.Embedding(11, 8), nn.EmbeddingBag(11, 8, mode="mean")
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.lstm, self.gru, self.rnn = nn.LSTM(8, 4, 2), nn.GRU(4, 4, batch_first=True), nn.RNN(4, 4)
        self.cell, self.head = nn.LSTMCell(8, 4), nn.Linear(4, 3)

    def forward(self, x):
        words = (x.abs() * 3).long().clamp(0, 10)
        y = self.layer(self.embed(words) + torch.arange(words.shape[1])[None, :, None] * 0.1)
        h, c = self.cell(y[:, 0])
        y, _ = self.lstm(y.transpose(0, 1))
        y, _ = self.gru(y.transpose(0, 1))
        y, _ = self.rnn(y)
        bag = self.bag(words.reshape(-1), torch.arange(words.shape[0]) * words.shape[1])
        mask = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).tril()
        q = F.scaled_dot_product_attention(y[:, None], y[:, None], y[:, None], attn_mask=mask)[:, 0]
        w = torch.cumsum(F.one_hot(words, 11).float(), 1)[:, -1, :4]
        return self.head(q.mean(1) + h + c + bag[:, :4] + w + F.rms_norm(q, [4])[:, 0])


class Algebra(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Parameter(torch.eye(4) * 2 + 0.1)
        self.wave = nn.Parameter(torch.randn(3))

    def forward(self, x):
        x = x[:, :4] * 1.0
        k = torch.fft.rfft(x, dim=-1)
        y = torch.fft.irfft(k * torch.complex(self.wave, self.wave), n=4) + torch.fft.fft2(x).abs()
        s = self.m @ self.m.T + torch.eye(4)
        y = y @ torch.linalg.inv(s) + torch.linalg.solve(s, x.T).T + x @ torch.linalg.cholesky(s)
        u, d, v = torch.linalg.svd(s)
        e, w = torch.linalg.eigh(s)
        y = y + d + e + torch.linalg.det(s) + torch.einsum("bi,ij,bj->b", x, s, x)[:, None]
        z = torch.stft(x.reshape(-1), 4, 2, 4, torch.hann_window(4), return_complex=True).abs().mean()
        y = y + torch.cdist(x, x).sum(1, keepdim=True) + torch.kron(x[:1], x[:1]).sum() + z + torch.logdet(s)
        y = y + torch.tensordot(x, self.m, 1) + torch.bilinear(x, x, torch.ones(1, 4, 4)) + torch.matrix_exp(s * 0.01)[0]
        r = torch.view_as_real(k.conj().resolve_conj()).flatten(1)[:, :4] + torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return y * 0.01 + r + torch.linalg.qr(s)[0][0]


class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x):
        y = self.layer(x[:, :6])
        self.seen.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        top, at = y.topk(3)
        order = torch.argsort(y.detach(), 1)
        y = y.gather(1, order).scatter(1, order, y).scatter_add(1, at, top).index_add(0, torch.tensor([0, 1]), y[:2])
        y = y.index_put((torch.tensor([0, 1]),), y[:2] * 2).index_select(1, torch.tensor([5, 4, 3, 2, 1, 0]))
        y = y.scatter_reduce(1, at, top, "amax").masked_fill(y > 1, 0.5).index_copy(0, torch.tensor([1]), y[:1])
        z = y * 1.0
        z[:, 0].add_(y[:, 1], alpha=2)
        z[1:3] += 1
        a, b = z.chunk(2, 1)
        z = torch.cat([a, b], 1).unfold(1, 3, 1).flatten(1)[:, :6].repeat(1, 2)[:, ::2].roll(1, 0)
        z = z.take(torch.arange(6)) + z.as_strided((z.shape[0], 6), (6, 1)) + torch.where(z > 0, z, -z)
        z = z + torch.searchsorted(torch.linspace(0, 1, 5), z.detach()) + torch.bucketize(z.detach(), torch.arange(3.0))
        z = z + torch.bincount(at.flatten(), minlength=6)[:6] + z.tril() + z.cummax(1)[0]
        z = z + torch.stack(torch.meshgrid(z[0], z[0], indexing="ij"))[0, 0] + z.sort(1, descending=True)[0] + z.flip(1)
        z = z + z.kthvalue(2, keepdim=True)[0] + z.median(1, keepdim=True)[0] + z.mode(1, keepdim=True)[0].detach()
        return z - self.seen + torch.stack(z.split(2, 1)).sum(0).repeat_interleave(3, 1) + z.diff(dim=1, prepend=z[:, :1])


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x, labels):
        y = self.layer(x[:, :6])
        classes = labels.long().clamp(0, 5)
        p = F.log_softmax(y, -1)
        loss = F.cross_entropy(y, classes, label_smoothing=0.1) + F.nll_loss(p, classes) + F.mse_loss(y, y.detach() * 0.9)
        loss = loss + F.binary_cross_entropy_with_logits(y, torch.sigmoid(y.detach())) + F.kl_div(p, p.exp().detach())
        loss = loss + F.huber_loss(y, y.detach() + 1) + F.smooth_l1_loss(y, y.roll(1, 0))
        loss = loss + F.cosine_embedding_loss(y, y.roll(1, 0), torch.ones_like(classes)) + F.triplet_margin_loss(y, y * 2, y * 3)
        return {"logits": y, "loss": loss + F.poisson_nll_loss(y, y.detach().abs())}


class Chance(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        y = self.layer(x[:, :6])
        with torch.no_grad():
            noise = torch.randn_like(y) * torch.rand(6) + torch.randint(0, 3, (6,)) + torch.bernoulli(torch.rand_like(y))
            pick = torch.multinomial(torch.softmax(y.detach(), 1), 2)
        y = F.alpha_dropout(y, 0.1, True) + noise + F.gumbel_softmax(y)
        y = y + torch.normal(torch.zeros_like(y), 1.0) + torch.empty_like(y).uniform_() + torch.empty(6).exponential_()
        return F.celu(F.softshrink(F.elu(y, 1.2), 0.1), 1.1) + y.gather(1, pick).mean() + torch.randperm(6) * 0.1


class Mapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.m = nn.Sequential(nn.Linear(8, 6), nn.ReLU()), nn.Parameter(torch.randn(6, 6))

    def forward(self, x):
        y = vmap(lambda a: self.net(a).softmax(0) * a.sum() + F.dropout(a, 0.5)[:6], randomness="same")(x)
        y = y + vmap(vmap(lambda a, b: (a * b).sum() - b.amax(0), in_dims=(None, 0)), in_dims=(0, None))(y, self.m)
        y = y + vmap(lambda a, m: torch.fft.rfft(a @ m).abs().sum() + a.gather(0, a.argsort()), in_dims=(0, None))(y, self.m)
        z = vmap(lambda a: F.conv1d(a[None, None], a[None, None, :3], padding=1)[0, 0] + a.new_ones(6))(y)
        w = vmap(lambda a: a.mul(2).add_(a.sin()).relu_().index_select(0, a.argmax()[None]).expand(6))(y)
        return z + w + vmap(lambda m: torch.tanh(y @ m + F.layer_norm(m[0], (6,))))(self.m[None]).mean(0)


class Volumes(nn.Module):
    """What the other images leave out: three dimensions, and the rarer samplers, pools and losses."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv3d(1, 2, 2), nn.ConvTranspose3d(2, 2, 2)
        self.line, self.unline = nn.Conv1d(4, 4, 3, padding=1), nn.ConvTranspose1d(4, 4, 3, padding=1)
        self.bag, self.mixed = nn.EmbeddingBag(9, 4, mode="sum", include_last_offset=True), nn.EmbeddingBag(9, 4, mode="max")
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        v = self.up(F.pad(self.conv(x.reshape(-1, 1, 2, 4, 4)), (1, 1, 1, 1, 1, 0), mode="replicate"))
        p, at = F.max_pool3d(v, 2, return_indices=True)
        u = F.max_unpool3d(p, at, 2)
        grid = F.affine_grid(torch.eye(3, 4)[None].expand(v.shape[0], 3, 4), list(u.shape), align_corners=True)
        u = F.grid_sample(u, grid, mode="nearest", padding_mode="border", align_corners=True)
        u = u + F.grid_sample(u, grid, padding_mode="reflection", align_corners=True)
        u = u + F.interpolate(u, size=u.shape[2:], mode="trilinear") + F.interpolate(u, size=u.shape[2:]) + F.avg_pool3d(u, (1, 3, 3), 1, (0, 1, 1))
        u = u + F.interpolate(u, size=u.shape[2:], mode="nearest-exact") + F.adaptive_avg_pool3d(u, 1) + F.adaptive_max_pool3d(u, 1)
        f = u.flatten(2)[:, :, :16].reshape(-1, 2, 4, 4)
        f = F.pad(f, (1, 1, 1, 1), mode="reflect") + F.interpolate(f, size=(6, 6), mode="bilinear", antialias=True)
        f = f[:, :, :4, :4] + F.fractional_max_pool2d(f, 3, (4, 4)) + F.interpolate(f, size=(4, 4), mode="bicubic", antialias=True)
        f = f + F.interpolate(f, size=(4, 4), mode="nearest-exact") + F.fractional_max_pool3d(u, (1, 2, 2), (1, 4, 4))[:, :, 0]
        z = self.unline(self.line(f.flatten(1)[:, :16].reshape(-1, 4, 4)))
        q, at = F.max_pool1d(z, 2, return_indices=True)
        z = z + F.max_unpool1d(q, at, 2) + F.interpolate(z, size=4, mode="linear") + F.avg_pool1d(z, 3, 1, 1) + F.interpolate(z, size=4)
        z = z + F.adaptive_avg_pool1d(z, 4) + F.adaptive_max_pool1d(z, 4) + F.pad(z, (1, 1), mode="reflect")[:, :, :4]
        words = (z[:, 0].detach().abs() * 3).long().clamp(0, 8)
        weights = z[:, 1].reshape(-1)
        bags = self.bag(words.reshape(-1), torch.arange(words.shape[0] + 1) * 4, weights) + self.mixed(words)
        heads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(z[:, None], z[:, None], z[:, None])[0][:, 0]
        keys = F.scaled_dot_product_attention(z[:, None], z[:, None], z[:, None], is_causal=True)[:, 0]
        y = self.head(bags + heads.mean(1) + keys.mean(1))
        classes = words[:, 0].clamp(0, 2)
        y = y + F.multilabel_margin_loss(y, words[:, :3].clamp(0, 2))
        y = y + F.nll_loss(F.log_softmax(y[:, :, None, None], 1), classes[:, None, None]) + F.soft_margin_loss(y, y.sign().detach())
        y = y + torch.div(words, classes[:, None] + 1, rounding_mode="floor")[:, :3] + words[:, :3] % 2 + torch.fmod(words, 3)[:, :3]
        y = y + torch.div(words, 3, rounding_mode="trunc")[:, :3] + words[:, :3] // 2 + words[:, :3].pow(2) + (words[:, :3] << 1)
        y = y + torch.histc(z, 3) + F.hinge_embedding_loss(y, torch.ones_like(y)) + torch.cumulative_trapezoid(y, dim=1).sum()
        return y + torch.unique_consecutive(classes).float().mean() + torch.nonzero_static(classes, size=2).float().mean()


folder = json.load(sys.stdin)["folder"]
batch = {0: Dim("batch", min=2)}
row = torch.randn(4, 8)
made = {}
for name, model, example in [
    ("volumes", Volumes, (torch.randn(4, 32),)), ("images", Images, (torch.randn(4, 1, 8, 8),)), ("words", Words, (row,)), ("algebra", Algebra, (row,)),
    ("places", Places, (row,)), ("mapped", Mapped, (row,)), ("losses", Losses, (row, torch.randn(4))), ("chance", Chance, (row,)),
]:
    torch.manual_seed(1)
    shapes = tuple({0: batch[0]} for _ in example) if name in ("images", "losses") else None
    program = export(model().train(), example, dynamic_shapes=shapes)
    lowered = [] if name == "algebra" else [(f"{name}_lowered", program.run_decompositions())]
    for kind, one in [(name, program), *lowered]:
        save(one, os.path.join(folder, f"{kind}.pt2"))
        made[kind] = [list(t.shape) for t in example]
json.dump({"programs": made}, sys.stdout)
