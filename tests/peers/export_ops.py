"""Some 300 models of one operation each, exported, and what PyTorch gives for them: the output and the gradients."""
import json
import math
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: F401  (for the expressions)
from torch.export import export, save

# An operation a line: x floats [4, 6] that ask for a gradient, m floats [6, 6], v floats [6], s one float, i images [2, 2, 6, 6],
# n whole numbers [4, 6], b truths [4, 6], k places [3], c complex [4, 6], h bf16 [4, 6], q a bf16 of no dimensions.
LINES = """
x + 2 ; x - 1.5 ; 3 - x ; x * 0.3 ; x / 3 ; 1 / x ; x ** 2 ; x ** 0.5 ; 2 ** x ; x // 0.3 ; x % 0.7 ; -x ; abs(x)
x.add(x, alpha=0.3) ; x.sub(m[:4], alpha=2) ; torch.subtract(x, 2) ; torch.subtract(x, m[:4], alpha=3) ; torch.multiply(x, 0.1)
torch.divide(x, 0.7) ; torch.divide(x, 0.7, rounding_mode="floor") ; torch.true_divide(x, 3) ; torch.negative(x) ; torch.positive(x)
torch.rsub(x, 2, alpha=3) ; torch.rsub(x, m[:4]) ; torch.floor_divide(x, 0.3) ; torch.div(x, 0.3, rounding_mode="trunc")
x.remainder(m[:4]) ; x.fmod(0.4) ; torch.remainder(2.5, x) ; x.square() ; torch.absolute(x) ; x.reciprocal() ; x.sign() ; x.sgn() * x
torch.pow(x.abs(), 1.7) ; torch.pow(2.5, x) ; x.abs().pow(m[:4]) ; torch.float_power(x, 2) ; torch.float_power(2, x)
x.clip(-0.5, 0.5) ; x.clip(min=0.1) ; x.clip(max=v) ; x.clamp(-0.4, 0.6) ; x.clamp(min=m[:4]) ; x.clamp_min(0.2) ; x.clamp_max(0.3)
x.addcmul(x, x, value=0.3) ; x.addcdiv(x, x.exp(), value=-0.2) ; torch.lerp(x, m[:4], 0.3) ; torch.lerp(x, m[:4], v)
torch.addmm(x[:, :6], x, m, beta=0.5, alpha=2) ; torch.addmv(x[:, 0], x, v, alpha=0.3) ; torch.addr(x, x[:, 0], v, beta=2)
torch.baddbmm(i[0], i[0], i[1], beta=0.2, alpha=0.7) ; torch.addbmm(m, i[0], i[1], alpha=0.5) ; x @ m ; torch.mv(m, v) ; torch.dot(v, v)
x > 0 ; x >= 0.1 ; x < -0.2 ; x <= 0 ; x == 0 ; x != 0 ; torch.gt(x, 0.5) ; torch.greater(x, 0.5) ; torch.less_equal(x, m[:4])
torch.not_equal(x, 0.5) ; n == 3 ; n > 2 ; torch.eq(n, 2) ; (x > 0) & b ; (x > 0) | b ; (x > 0) ^ b ; ~b ; b & True ; torch.logical_or(b, x > 0)
n & 1 ; n | 8 ; n ^ 3 ; ~n ; n << 1 ; n >> 1 ; 1 << n ; n & n.flip(0) ; torch.bitwise_and(n, 6) ; torch.bitwise_left_shift(n, 2)
torch.bitwise_or(5, n) ; torch.bitwise_right_shift(n, n.clamp(max=2)) ; torch.bitwise_not(n) ; n // 2 ; n % 3 ; n ** 2 ; n / 2 ; n * 1.5 ; n.neg()
n.float().fmod(3) ; n + True ; n.clamp(1, 4) ; n.clip(max=3) ; n.remainder(4) ; n.gcd(n.flip(1)) ; torch.lcm(n + 1, n.flip(1) + 1) ; n.sum() ; n.cumsum(1)
x.exp() ; x.exp2() ; x.expm1() ; x.abs().log() ; x.abs().log2() ; x.abs().log10() ; x.abs().log1p() ; x.abs().sqrt() ; x.abs().rsqrt()
x.sin() ; x.cos() ; x.tan() ; x.tanh() ; x.sinh() ; x.cosh() ; x.tanh().asin() ; x.tanh().acos() ; x.atan() ; x.tanh().atanh() ; x.asinh()
(x.abs() + 1).acosh() ; torch.atan2(x, m[:4]) ; torch.arctan2(x, v) ; x.sigmoid() ; x.erf() ; x.erfc() ; x.tanh().erfinv() ; torch.sinc(x) ; x.frac()
x.floor() ; x.ceil() ; x.round() ; torch.round(x, decimals=1) ; x.trunc() ; torch.fix(x) ; x.nan_to_num(0.5) ; torch.hypot(x, v) ; torch.logaddexp(x, v)
torch.logaddexp2(x, v) ; torch.xlogy(x.abs(), 2.0) ; torch.xlogy(2.0, x.abs()) ; torch.copysign(x, -1) ; torch.copysign(x, v) ; torch.heaviside(x, v) ; torch.ldexp(x, n)
x.logit(0.1) ; torch.digamma(x.abs() + 1) ; torch.lgamma(x.abs() + 1) ; torch.polygamma(1, x.abs() + 1) ; torch.i0(x) ; torch.special.xlog1py(x, 0.3) ; torch.special.zeta(x.abs() + 2, 1.0)
torch.special.entr(x.abs()) ; torch.special.ndtr(x) ; torch.deg2rad(x) ; torch.mvlgamma(x.abs() + 3, 2) ; torch.nextafter(x, v) ; torch.gradient(x)[0] ; torch.gradient(x, spacing=0.5, dim=1)[0]
torch.gradient(x, dim=(0, 1))[1] ; torch.gradient(x, spacing=(0.5, 2.0))[1] ; torch.diff(x) ; torch.diff(x, n=2, dim=0) ; torch.trapezoid(x, dx=0.5) ; torch.trapezoid(x, v) ; torch.cumulative_trapezoid(x, dx=0.1)
x.sum() ; x.sum(1) ; x.sum((0, 1), keepdim=True) ; x.mean() ; x.mean(0) ; x.var() ; x.var(1, correction=0) ; x.std(1, correction=2) ; x.std(0, unbiased=False) ; torch.var_mean(x, 1)
torch.std_mean(x, dim=1, correction=3) ; x.prod() ; x.prod(1) ; x.amax(1) ; x.amin() ; x.aminmax(dim=0) ; x.max() ; x.max(1) ; x.min(0) ; x.median() ; x.median(1) ; x.mode(1)
x.nansum(1) ; x.nanmean() ; x.logsumexp(1) ; x.quantile(0.3, 1) ; x.nanquantile(0.7) ; x.kthvalue(2, 1) ; x.argmax(1) ; x.argmin() ; x.count_nonzero(1) ; x.cummax(1) ; x.cummin(0) ; x.cumprod(1)
x.logcumsumexp(1) ; x.any() ; b.all(1) ; x.sort(1) ; x.topk(2) ; x.argsort(1) ; x.msort() ; torch.histc(x, 5, -2, 2) ; torch.bincount(n.flatten(), minlength=9) ; torch.bucketize(x, v.sort().values)
torch.searchsorted(v.sort().values, x) ; torch.searchsorted(v.sort().values, 0.3) ; torch.isin(n, k) ; torch.isin(n, 2) ; torch.isclose(x, v) ; x.isnan() ; x.isfinite() ; x.signbit()
x.norm() ; x.norm(1) ; x.norm(3, dim=1) ; x.norm(float("inf"), 0) ; x.norm(p="fro") ; torch.linalg.norm(x) ; torch.linalg.norm(x, 1, dim=1) ; torch.linalg.norm(m, "fro") ; torch.linalg.norm(m, "nuc")
torch.linalg.norm(m, 2) ; torch.linalg.norm(m, 1) ; torch.linalg.norm(v, 3) ; torch.linalg.vector_norm(x, 1) ; torch.linalg.vector_norm(x, 2.5, dim=1) ; torch.linalg.vector_norm(x, float("inf")) ; torch.linalg.matrix_norm(m)
torch.linalg.matrix_norm(m, 1) ; torch.linalg.matrix_norm(m, float("inf")) ; F.normalize(x) ; F.normalize(x, 1) ; F.normalize(x, 3) ; torch.dist(x, m[:4]) ; torch.dist(x, m[:4], 1) ; x.renorm(2, 0, 1.0)
torch.cdist(x, m) ; torch.cdist(x, m, 1.0) ; torch.linalg.det(m) ; torch.linalg.inv(m) ; torch.linalg.solve(m, v) ; torch.linalg.cholesky(m @ m.T + 6 * torch.eye(6)) ; torch.linalg.qr(m) ; torch.linalg.slogdet(m)
torch.linalg.eigvalsh(m + m.T) ; torch.linalg.svdvals(m) ; torch.linalg.pinv(m) ; torch.linalg.matrix_power(m, 3) ; torch.matrix_exp(m * 0.1) ; torch.linalg.cross(x[:, :3], x[:, 3:]) ; torch.kron(v, v) ; torch.outer(v, v) ; torch.trace(m)
torch.einsum("ab,bc->ac", x, m) ; torch.tensordot(x, m, 1) ; torch.cosine_similarity(x, v, dim=1) ; x.triu() ; x.tril(1) ; torch.diag(v) ; torch.diagonal(m, 1) ; torch.diag_embed(v, 1)
F.relu(x) ; F.relu6(x * 9) ; F.leaky_relu(x, 0.2) ; F.elu(x, 1.3) ; F.selu(x) ; F.celu(x, 1.2) ; F.gelu(x) ; F.gelu(x, approximate="tanh") ; F.silu(x) ; F.mish(x) ; F.softplus(x, 2, 10) ; F.softsign(x) ; F.tanhshrink(x)
F.hardtanh(x, -0.5, 0.7) ; F.hardswish(x) ; F.hardsigmoid(x) ; F.softshrink(x, 0.2) ; F.hardshrink(x, 0.3) ; F.threshold(x, 0.1, -3) ; F.logsigmoid(x) ; F.glu(x) ; F.softmax(x, 1) ; F.softmin(x, 1) ; F.log_softmax(x, 1) ; F.prelu(x, s.reshape(1))
F.relu(x.clone(), inplace=True) ; F.elu(x.clone(), 1.5, inplace=True) ; F.celu(x.clone(), 1.5, inplace=True) ; F.hardtanh(x.clone(), inplace=True) ; F.threshold(x.clone(), 0.1, 2, inplace=True) ; F.leaky_relu(x.clone(), 0.3, inplace=True)
x.clone().add_(2) ; x.clone().sub_(m[:4], alpha=2) ; x.clone().mul_(0.3).div_(7) ; x.clone().pow_(3) ; x.clone().clamp_(-0.1, 0.2) ; x.clone().clip_(max=0.2) ; x.clone().addcmul_(x, x, value=2) ; x.clone().addcdiv_(x, x.exp(), value=2)
x.clone().lerp_(m[:4], 0.7) ; x.clone().fill_(2.5) ; x.clone().masked_fill_(b, -1) ; x.clone().index_fill_(0, k, 0.3) ; x.clone().index_add_(0, k, x[:3], alpha=0.5) ; x.clone().scatter_(1, n.clamp(max=5), 0.5) ; x.clone().remainder_(0.7)
x.clone().neg_().abs_() ; x.clone().floor_divide_(0.3) ; x.clone().copysign_(-1) ; x.clone().addmm_(x, m, beta=0.3) ; x.clone().xlogy_(2.0) ; n.clone().bitwise_and_(3) ; n.clone().__iand__(1) ; n.clone().__ilshift__(1) ; n.clone().mul_(3).add_(1, alpha=2)
x.clone().zero_() ; x.clone().gt_(0) ; x.clone().fmod_(0.4) ; x.clone().nan_to_num_(1.0) ; x.clone().fill_diagonal_(3.0) ; x.clone().index_put_((k,), x[:3] * 2) ; x.clone().index_copy_(0, k, x[:3]) ; x.clone().masked_scatter_(b, x * 2) ; x.clone().cumsum_(1) ; x.clone().renorm_(2, 0, 1.0)
torch.where(b, x, 0.5) ; torch.where(b, 0.5, x) ; torch.where(b, x, m[:4]) ; torch.where(b, 1.0, 2.0) ; torch.where(b, 1, 2) ; x.masked_fill(b, -7.5) ; x.masked_fill(b, s) ; x.index_fill(0, k, 0.3) ; x.index_fill(1, k, s) ; x.index_add(0, k, x[:3], alpha=0.5)
x.scatter(1, n.clamp(max=5), 0.4) ; x.scatter(1, n.clamp(max=5), 0.4, reduce="add") ; x.scatter_add(1, n.clamp(max=5), x) ; x.scatter_reduce(1, n.clamp(max=5), x, "amax") ; x.gather(1, n.clamp(max=5)) ; x.take(k) ; x.take_along_dim(n.clamp(max=5), 1) ; x.index_select(1, k)
x[k] ; x[:, k] ; x[1:3, ::2] ; x[..., -1] ; x[None] ; torch.index_reduce(x, 0, k, x[:3], "mean") ; x.masked_scatter(b, x * 2) ; x.put(k, v[:3]) ; x.select_scatter(v, 0, 1) ; x.slice_scatter(x[:2], 0, 1, 3) ; x.diagonal_scatter(v[:4])
torch.full((3,), 2.5) * x[:, :3] ; torch.full_like(x, 3) * x ; x.new_full((6,), 0.5) * x ; torch.arange(6) * x ; torch.arange(0.5, 6.5) * x ; torch.arange(1, 13, 2) * x ; torch.linspace(0, 1, 6) * x ; torch.logspace(0, 1, 6) * x ; torch.eye(4, 6) * x ; torch.ones_like(x) * x
torch.hann_window(6) * x ; torch.hamming_window(6) * x ; torch.blackman_window(6) * x ; torch.kaiser_window(6) * x ; torch.tril_indices(4, 4) ; torch.scalar_tensor(2.5) * x ; torch.tensor(2.5) * x ; torch.tensor([1, 2, 3, 4, 5, 6]) * x ; torch.complex(x, x)
torch.cat([x, x], 1) ; torch.stack([x, x]) ; torch.hstack([x, x]) ; torch.vstack([x, v]) ; torch.dstack([x, x]) ; x.chunk(2, 1)[1] ; x.split(4, 1)[1] ; x.split([2, 4], 1) ; x.tensor_split(3, 1)[2] ; x.unbind(1)[2] ; x.unfold(1, 3, 1) ; x.repeat(2, 1) ; x.repeat_interleave(2, 1)
x.tile(2) ; x.expand(2, 4, 6) ; x.roll(1, 0) ; x.flip(1) ; x.rot90() ; x.t() ; x.movedim(0, 1) ; x.swapaxes(0, 1) ; x.reshape(3, 8) ; x.unflatten(1, (2, 3)) ; x.ravel() ; x.squeeze(0) ; x.unsqueeze(1) ; torch.meshgrid(v, v, indexing="ij") ; torch.cartesian_prod(v, v) ; torch.block_diag(x, m)
torch.combinations(v) ; torch.atleast_3d(x) ; x.fliplr() ; torch.column_stack([x, x]) ; torch.broadcast_tensors(x, v) ; x.as_strided((2, 3), (6, 1)) ; x.contiguous().view(-1) ; x.type_as(n) ; x.to(torch.float64) ; x.to(torch.bfloat16) ; x.half() ; x.int() ; x.bool() ; x.detach() * x
F.linear(x, m, v) ; F.bilinear(x, x, i[:, :1].reshape(2, 6, 6)) ; F.embedding(k, m) ; F.embedding(k, m, max_norm=None, padding_idx=0) ; F.embedding_bag(k[None], m) ; F.one_hot(k, 4) ; F.conv1d(i[0, :, 0][None], i[:, :, 0, :3]) ; F.conv2d(i, i[:, :, :3, :3], padding=1) ; F.conv2d(i, i[:, :, :3, :3], stride=2, dilation=2)
F.conv_transpose2d(i, i[:, :, :3, :3], stride=2, output_padding=1) ; F.conv3d(i[None], i[None, :, :1, :3, :3].reshape(1, 2, 1, 3, 3)) ; F.conv2d(i, i[:, :1, :3, :3], groups=2, padding="same") ; F.max_pool2d(i, 2) ; F.max_pool2d(i, 2, return_indices=True) ; F.avg_pool2d(i, 3, 1, 1) ; F.adaptive_avg_pool2d(i, 4) ; F.adaptive_max_pool2d(i, 2)
F.lp_pool2d(i.abs(), 2.0, 2) ; F.max_pool1d(x, 2) ; F.avg_pool1d(x[None], 2) ; F.interpolate(i, scale_factor=2) ; F.interpolate(i, size=(9, 9), mode="bilinear") ; F.interpolate(i, scale_factor=1.5, mode="bicubic") ; F.interpolate(i, size=4, mode="area") ; F.interpolate(i, size=4, mode="nearest-exact") ; F.interpolate(i, size=4, mode="bilinear", antialias=True)
F.pad(x, (1, 2), value=0.25) ; F.pad(x, (1, 1)) ; F.pad(i, (1, 1, 2, 0), mode="reflect") ; F.pad(i, (1, 1, 2, 0), mode="replicate") ; F.pad(i, (1, 1, 2, 0), mode="circular") ; F.unfold(i, 3) ; F.fold(i.reshape(2, 8, 9), (6, 6), 2, stride=2) ; F.pixel_shuffle(i.reshape(2, 8, 3, 3), 2) ; F.grid_sample(i, i.permute(0, 2, 3, 1)) ; F.affine_grid(i[:, :, 0, :3], (2, 1, 4, 4))
F.layer_norm(x, (6,), v) ; F.group_norm(i, 2, v[:2]) ; F.batch_norm(i, None, None, training=True) ; F.batch_norm(i, v[:2].detach(), v[2:4].detach().abs()) ; F.instance_norm(i) ; F.rms_norm(x, (6,)) ; F.local_response_norm(i, 2) ; F.scaled_dot_product_attention(i, i, i) ; F.scaled_dot_product_attention(i, i, i, is_causal=True, scale=0.3)
F.mse_loss(x, m[:4]) ; F.l1_loss(x, m[:4]) ; F.smooth_l1_loss(x, m[:4], beta=0.3) ; F.huber_loss(x, m[:4], delta=0.4) ; F.cross_entropy(x, k.repeat(2)[:4], label_smoothing=0.1) ; F.nll_loss(x.log_softmax(1), k.repeat(2)[:4]) ; F.binary_cross_entropy(x.sigmoid(), b.float()) ; F.binary_cross_entropy_with_logits(x, b.float(), pos_weight=v.detach().abs())
F.kl_div(x.log_softmax(1), m[:4].softmax(1)) ; F.poisson_nll_loss(x, n.float()) ; F.cosine_embedding_loss(x, m[:4], torch.ones(4)) ; F.margin_ranking_loss(x, m[:4], torch.ones(4, 6), margin=0.2) ; F.triplet_margin_loss(x, m[:4], x.flip(0), margin=0.5) ; F.hinge_embedding_loss(x, b * 2.0 - 1)
F.soft_margin_loss(x, b * 2.0 - 1) ; F.multi_margin_loss(x, k.repeat(2)[:4]) ; F.multilabel_soft_margin_loss(x, b.float()) ; F.pairwise_distance(x, m[:4]) ; F.pdist(x) ; F.ctc_loss(i.reshape(12, 2, 6).log_softmax(2), k.repeat(2).reshape(2, 3)[:, :2] + 1, (12, 12), (2, 2)) ; F.multilabel_margin_loss(x, n.clamp(max=5))
torch.fft.fft(x) ; torch.fft.ifft(x) ; torch.fft.rfft(x) ; torch.fft.irfft(c) ; torch.fft.fft2(x) ; torch.fft.rfftn(x) ; torch.fft.fftshift(x) ; torch.fft.rfft(x, norm="ortho") ; torch.stft(x.flatten(), 8, 4, window=torch.ones(8), return_complex=True) ; torch.fft.fftfreq(6) * x ; c * 2 ; c * 2.5j ; c + (1 + 2j) ; c.abs() ; c.angle() ; c.conj() ; c.real
c.imag ; c * c ; c @ c.mH ; c.exp() ; c / (1 + c.abs()) ; torch.view_as_real(c) ; torch.polar(x.abs(), x) ; c.sum() ; c.mean(0) ; torch.einsum("ab,cb->ac", c, c) ; torch.real(c) ; c ** 2 ; c.reciprocal() ; torch.isreal(c) ; c == c ; c.pow(2.5)
x + n ; x * n ; x * b ; n + b ; x.double() * 0.1 ; h + 1.001 ; h * 0.3 ; h / 3 ; h - x ; q * 0.1 ; q + 0.1 ; q / 3 ; 2 - q ; q ** 2 ; q.clamp(0.3) ; torch.lerp(h, h.flip(0), 0.3) ; h.add(h, alpha=0.3) ; q.add(q, alpha=0.3) ; h ** 1.5 ; h.softmax(1) ; q > 0.3 ; h.sum() * 0.1 ; torch.where(b, h, 0.3) ; h.addcmul(h, h, value=0.3)
s * 2 ; s + 0.1 ; s / 3 ; 1 - s ; s ** 3 ; s.clamp(0, 1) ; s > 0.3 ; x * s ; s.expand(3) * 2 ; s.sum() * 0.3 ; x.sum() * 2 + 1 ; x.size(0) * x ; x * x.shape[1] ; x / math.sqrt(6) ; x * float("inf") ; x.masked_fill(b, float("-inf")).softmax(1) ; x * True ; x + False
torch.vmap(lambda a: a.sin() + a.sum())(x) ; torch.vmap(lambda a, w: a @ w, in_dims=(0, None))(x, m) ; torch.vmap(lambda a: a.clamp(0, 1) * 2, in_dims=1)(x) ; torch.vmap(torch.dot)(x, x) ; torch.func.vmap(lambda a: torch.outer(a, a))(x)
AUTOCAST(x, m) ; NOGRAD(x) ; x.new_zeros(4, 6) + x ; x.new_ones(6) * x ; torch.zeros(4, 6) + x ; x.clone() ; n.unfold(1, 2, 2) ; torch.mm(m, m) ; torch.chain_matmul(m, m, m) ; torch.linalg.multi_dot([x, m, m])
 torch.zeros_like(x) + x ; torch.cumsum(x, 0) ; torch.nn.functional.fractional_max_pool2d(i, 3, 4, _random_samples=i.detach()[:, :, :2, 0].sigmoid()) ; torch.istft(torch.stft(x.flatten(), 8, 4, window=torch.ones(8), return_complex=True), 8, 4, window=torch.ones(8))
"""


def AUTOCAST(x, m):
    with torch.autocast("cpu", enabled=False):
        return x.float() @ m


def NOGRAD(x):
    with torch.no_grad():
        y = x * 2
    return x + y


# Run in mixed precision on both sides: what is cast is libtorch's to say.
MIXED = """
x @ m ; torch.addmm(v, x, m) ; torch.addmm(v.bfloat16(), x, m, beta=0.5) ; torch.baddbmm(i[0], i[0].bfloat16(), i[1]) ; torch.bmm(i[0], i[1])
F.linear(x, m, v) ; F.conv2d(i, i[:, :, :3, :3]) ; F.scaled_dot_product_attention(i, i, i) ; torch.einsum("ab,bc->ac", x, m) ; h @ m ; AUTOCAST(x, m)
torch.addbmm(m, i[0], i[1].bfloat16()) ; torch.addmv(x[:, 0], x.bfloat16(), v) ; F.mse_loss(x @ m, x) ; (x @ m).softmax(1) ; F.layer_norm(x @ m, (6,)) ; (x @ m) * 0.1 + 0.3 ; (x @ m).masked_fill(b, torch.finfo((x @ m).dtype).min) * 0.5 ; torch.lerp(x @ m, h, 0.3)
"""


def expressions(lines):
    return [part.strip() for line in lines.strip().splitlines() for part in line.split(" ; ")]


class One(nn.Module):
    def __init__(self, f):
        super().__init__()
        torch.manual_seed(0)
        self.f = f
        self.w, self.m, self.v = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.randn(6))
        self.s, self.i = nn.Parameter(torch.tensor(0.7)), nn.Parameter(torch.randn(2, 2, 6, 6))
        self.register_buffer("n", torch.randint(0, 8, (4, 6)))
        self.register_buffer("b", torch.rand(4, 6) > 0.5)
        self.register_buffer("k", torch.tensor([2, 0, 1]))

    def forward(self, x):
        x = x * self.w
        h = x.to(torch.bfloat16)
        r = self.f(x=x, m=self.m, v=self.v, s=self.s, i=self.i, n=self.n, b=self.b, k=self.k, c=torch.complex(x, x.cos()), h=h, q=h[0, 0])
        parts = [r] if isinstance(r, torch.Tensor) else list(r)
        parts = [torch.view_as_real(p.resolve_conj()) if p.is_complex() else p for p in parts]
        return torch.cat([p.reshape(-1).to(torch.float32) for p in parts])


def told(values):
    return [v if math.isfinite(v) else str(v) for v in values.detach().flatten().tolist()]


warnings.filterwarnings("ignore")
torch.set_num_threads(1)
asked = json.load(sys.stdin)
names = "x m v s i n b k c h q".split()
x = torch.randn(4, 6, generator=torch.Generator().manual_seed(5))
answers = []
plain, mixes = expressions(LINES), expressions(MIXED)
wanted = [(text, "") for text in plain] + [(text, "mixed") for text in mixes]
wanted += [(text, "decomposed") for text in plain if "vmap(" in text]
for number, (text, how) in enumerate(wanted):
    mixed = how == "mixed"
    chosen = how or number % asked.get("every", 1) == 0 or any(part in text for part in asked.get("with", []))
    if not chosen:
        continue
    scope = {name: globals()[name] for name in ("torch", "F", "math", "AUTOCAST", "NOGRAD")}
    f = eval(f"lambda {', '.join(names)}: {text}", scope)
    model = One(f)
    answer = {"op": text, "how": how, "path": os.path.join(asked["folder"], f"{number}.pt2")}
    try:
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            y = model(x)
        answer["output"] = told(y)
        try:
            y.square().mean().backward()
            answer["gradients"] = {name: told(p.grad) for name, p in model.named_parameters() if p.grad is not None}
        except (RuntimeError, NotImplementedError):
            pass  # an operation without a derivative: its output is compared
        program = export(One(f), (x,))
        save(program.run_decompositions() if how == "decomposed" else program, answer["path"])
    except Exception as error:  # noqa: BLE001
        answer["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    answers.append(answer)
json.dump({"torch": torch.__version__, "input": x.tolist(), "answers": answers}, sys.stdout)
