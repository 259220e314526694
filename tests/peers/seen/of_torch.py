"""PyTorch itself: the layers and losses of torch.nn, the distributions, and the parametrizations of weights."""

import torch
import torch.distributions as D
import torch.nn as nn
from torch.nn.utils import parametrizations

X, IMAGE, VOLUME, WORDS = torch.randn(4, 6), torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8, 8), torch.randint(0, 5, (4, 6))
SERIES = torch.randn(2, 4, 8)
SAMPLES = {1: SERIES, 2: IMAGE, 3: VOLUME}


class Of(nn.Module):
    """Any function, with a weight."""

    def __init__(self, f):
        super().__init__()
        self.f, self.scale = f, nn.Parameter(torch.ones(()))

    def forward(self, *args):
        return self.f(*(a * self.scale if a.is_floating_point() else a for a in args))


def layers():
    for name in sorted(dir(nn)):
        kind = getattr(nn, name)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)) or name.startswith(
            (
                "Lazy",
                "Module",
                "Parameter",
                "Container",
                "DataParallel",
                "RNNBase",
                "RNNCellBase",
                "CrossMap",
                "LinearCrossEntropy",
                "CTC",
                "NLLLoss2d",
            )
        ):
            continue
        for i, (arguments, more, inputs) in enumerate(ways(name)):
            yield f"{name} {i}", lambda kind=kind, a=arguments, m=more, x=inputs: (kind(*a, **m), x)


def ways(name):
    dims = int(name[-2]) if name[-1] == "d" and name[-2].isdigit() else 0
    x = SAMPLES.get(dims, X)
    if name.startswith("Conv"):
        modes = ("zeros",) if "Transpose" in name else ("zeros", "reflect", "replicate", "circular")
        return [((4, 8, 3), {"padding": 1, "padding_mode": mode}, (x,)) for mode in modes] + [((4, 8, 3), {"stride": 2, "groups": 2}, (x,))]
    if "Norm" in name:
        return {
            "GroupNorm": [((2, 4), {}, (IMAGE,))],
            "LayerNorm": [(((6),), {}, (X,))],
            "RMSNorm": [((6,), {}, (X,))],
            "LocalResponseNorm": [((2,), {}, (IMAGE,))],
            "CrossMapLRN2d": [((2,), {}, (IMAGE,))],
        }.get(name, [((4,), {}, (x,)), ((4,), {"affine": True, "track_running_stats": True}, (x,))])
    if "Unpool" in name:
        return [((2,), {}, (x, torch.arange(8**dims).expand(2, 4, -1).reshape(x.shape) % 64))]
    if name.startswith("Adaptive") and "Pool" in name:
        return [((3,), {}, (x,)), ((1,), {}, (x,))]
    if name.startswith("Fractional"):
        return [((2,), {"output_size": 3}, (x,))]
    if name.startswith("LP"):
        return [((2, 2), {}, (x.abs(),))]
    if "Pool" in name:
        return [
            ((2,), {}, (x,)),
            ((3, 2, 1), {"ceil_mode": True}, (x,)),
            *([((2,), {"return_indices": True}, (x,))] if "Max" in name else []),
        ]
    if "Pad" in name:
        return [((1, 0.5) if name.startswith("Constant") else (1,), {}, (x,))]
    if name in ("Dropout1d", "Dropout2d", "Dropout3d"):
        return [((0.1,), {}, (x,))]
    if name == "Upsample":
        return [
            ((), {"scale_factor": 2, "mode": mode}, (t,))
            for mode, t in (
                ("nearest", SERIES),
                ("nearest", IMAGE),
                ("nearest", VOLUME),
                ("linear", SERIES),
                ("bilinear", IMAGE),
                ("bicubic", IMAGE),
                ("trilinear", VOLUME),
                ("nearest-exact", IMAGE),
                ("nearest-exact", SERIES),
                ("nearest-exact", VOLUME),
                ("area", IMAGE),
            )
        ]
    if name in ("UpsamplingNearest2d", "UpsamplingBilinear2d"):
        return [((), {"scale_factor": 2}, (IMAGE,))]
    if name in ("LSTM", "GRU", "RNN"):
        return [
            ((6, 5, 2), {"batch_first": True, "dropout": 0.1, **more}, (torch.randn(2, 7, 6),))
            for more in (
                {},
                {"bidirectional": True},
                *([{"proj_size": 3}] if name == "LSTM" else []),
                *([{"nonlinearity": "relu"}] if name == "RNN" else []),
            )
        ]
    if name.endswith("Cell"):
        return [((6, 5), {}, (X,))] + ([((6, 5), {"nonlinearity": "relu"}, (X,))] if name == "RNNCell" else [])
    if name.endswith("Loss") or name in ("CTCLoss",):
        return loss_ways(name)
    special = {
        "Linear": [((6, 3), {}, (X,)), ((6, 3, False), {}, (X,))],
        "Bilinear": [((6, 6, 3), {}, (X, X))],
        "Embedding": [((5, 3), {}, (WORDS,)), ((5, 3), {"padding_idx": 0, "max_norm": 1.0}, (WORDS,))],
        "EmbeddingBag": [((5, 3), {"mode": mode}, (WORDS,)) for mode in ("sum", "mean", "max")]
        + [((5, 3), {"include_last_offset": True}, (WORDS.flatten(), torch.tensor([0, 3, 24])))],
        "MultiheadAttention": [((6, 2), {"dropout": 0.1, "batch_first": first}, (torch.randn(2, 7, 6),) * 3) for first in (True, False)],
        "Transformer": [((6, 2, 1, 1, 8), {"batch_first": True}, (torch.randn(2, 7, 6), torch.randn(2, 5, 6)))],
        "TransformerEncoderLayer": [
            ((6, 2, 8), {"activation": a, "norm_first": f, "batch_first": True}, (torch.randn(2, 7, 6),))
            for a, f in (("relu", False), ("gelu", True))
        ],
        "TransformerDecoderLayer": [((6, 2, 8), {}, (torch.randn(7, 2, 6),) * 2)],
        "GLU": [((), {}, (X,))],
        "Threshold": [((0.1, 2.0), {}, (X,)), ((0.1, 2.0, True), {}, (X * 1,))],
        "Fold": [(((6, 6), 2), {"stride": 2}, (torch.randn(2, 8, 9),))],
        "Unfold": [((3,), {}, (IMAGE,))],
        "PixelShuffle": [((2,), {}, (IMAGE,))],
        "PixelUnshuffle": [((2,), {}, (IMAGE,))],
        "ChannelShuffle": [((2,), {}, (IMAGE,))],
        "Unflatten": [((1, (2, 3)), {}, (X,))],
        "Softmax2d": [((), {}, (IMAGE,))],
        "CosineSimilarity": [((), {}, (X, X))],
        "PairwiseDistance": [((), {}, (X, X))],
        "Hardtanh": [((), {}, (X,)), ((-1, 1, True), {}, (X * 1,))],
        "Softmax": [((1,), {}, (X,))],
        "LogSoftmax": [((1,), {}, (X,))],
        "Softmin": [((1,), {}, (X,))],
    }
    return special.get(name, [((), {}, (X,)), ((), {"inplace": True}, (X * 1,)), ((0.5,), {}, (X,))])


def loss_ways(name):
    classes = torch.randint(0, 6, (4,))
    signs = torch.tensor([1.0, -1, 1, 1])
    both = {
        "CrossEntropyLoss": [(X, classes), (IMAGE, torch.randint(0, 4, (2, 8, 8))), (X, X.softmax(1))],
        "NLLLoss": [(X, classes), (IMAGE, torch.randint(0, 4, (2, 8, 8)))],
        "NLLLoss2d": [(IMAGE, torch.randint(0, 4, (2, 8, 8)))],
        "BCELoss": [(X.sigmoid(), X.sigmoid())],
        "CosineEmbeddingLoss": [(X, X, signs)],
        "MarginRankingLoss": [(X[:, 0], X[:, 1], signs)],
        "TripletMarginLoss": [(X, X, X)],
        "TripletMarginWithDistanceLoss": [(X, X, X)],
        "GaussianNLLLoss": [(X, X, X.abs())],
        "MultiMarginLoss": [(X, classes)],
        "MultiLabelMarginLoss": [(X, WORDS)],
        "CTCLoss": [(torch.randn(12, 4, 6).log_softmax(2), torch.randint(1, 5, (4, 3)), torch.full((4,), 12), torch.full((4,), 3))],
        "HingeEmbeddingLoss": [(X, X.sign())],
        "SoftMarginLoss": [(X, X.sign())],
        "AdaptiveLogSoftmaxWithLoss": [],
        "MultiLabelSoftMarginLoss": [(X, X.sigmoid().round())],
    }.get(name, [(X, X.abs())])
    more = (
        ({}, {"label_smoothing": 0.1})
        if name == "CrossEntropyLoss"
        else ({}, {"reduction": "sum"}, {"reduction": "none"})
        if "AdaptiveLog" not in name
        else ()
    )
    return [((), kind, given) for given in both for kind in more]


P = X.abs() + 0.5
DISTRIBUTIONS = {
    "Normal": lambda a: D.Normal(a, P),
    "LogNormal": lambda a: D.LogNormal(a, P),
    "Laplace": lambda a: D.Laplace(a, P),
    "Cauchy": lambda a: D.Cauchy(a, P),
    "Gumbel": lambda a: D.Gumbel(a, P),
    "StudentT": lambda a: D.StudentT(P + 2, a, P),
    "Gamma": lambda a: D.Gamma(a.abs() + 0.5, P),
    "Beta": lambda a: D.Beta(a.abs() + 0.5, P),
    "Dirichlet": lambda a: D.Dirichlet(a.abs() + 0.5),
    "Exponential": lambda a: D.Exponential(a.abs() + 0.5),
    "Uniform": lambda a: D.Uniform(a, a + P),
    "Weibull": lambda a: D.Weibull(a.abs() + 0.5, P),
    "Poisson": lambda a: D.Poisson(a.abs() + 0.5),
    "Bernoulli": lambda a: D.Bernoulli(logits=a),
    "Categorical": lambda a: D.Categorical(logits=a),
    "Binomial": lambda a: D.Binomial(5, logits=a),
    "NegativeBinomial": lambda a: D.NegativeBinomial(5, logits=a),
    "Geometric": lambda a: D.Geometric(logits=a),
    "OneHotCategorical": lambda a: D.OneHotCategorical(logits=a),
    "OneHotCategoricalStraightThrough": lambda a: D.OneHotCategoricalStraightThrough(logits=a),
    "HalfNormal": lambda a: D.HalfNormal(a.abs() + 0.5),
    "HalfCauchy": lambda a: D.HalfCauchy(a.abs() + 0.5),
    "Chi2": lambda a: D.Chi2(a.abs() + 0.5),
    "VonMises": lambda a: D.VonMises(a, P),
    "Pareto": lambda a: D.Pareto(a.abs() + 0.5, P),
    "Kumaraswamy": lambda a: D.Kumaraswamy(a.abs() + 0.5, P),
    "ContinuousBernoulli": lambda a: D.ContinuousBernoulli(logits=a),
    "RelaxedBernoulli": lambda a: D.RelaxedBernoulli(torch.tensor(0.5), logits=a),
    "RelaxedOneHotCategorical": lambda a: D.RelaxedOneHotCategorical(torch.tensor(0.5), logits=a),
    "InverseGamma": lambda a: D.InverseGamma(a.abs() + 0.5, P),
    "Multinomial": lambda a: D.Multinomial(5, logits=a),
    "LogitRelaxedBernoulli": lambda a: D.LogitRelaxedBernoulli(torch.tensor(0.5), logits=a),
    "MultivariateNormal": lambda a: D.MultivariateNormal(a, scale_tril=torch.eye(6)),
    "MultivariateNormal covariance": lambda a: D.MultivariateNormal(a, torch.eye(6)),
    "LowRankMultivariateNormal": lambda a: D.LowRankMultivariateNormal(a, torch.ones(6, 2), torch.ones(6)),
    "LogisticNormal": lambda a: D.LogisticNormal(a, P),
    "MixtureSameFamily": lambda a: D.MixtureSameFamily(D.Categorical(logits=a), D.Normal(a, P)),
    "Independent": lambda a: D.Independent(D.Normal(a, P), 1),
    "TransformedDistribution": lambda a: D.TransformedDistribution(D.Normal(a, P), [D.SigmoidTransform(), D.AffineTransform(1, 2)]),
    "FisherSnedecor": lambda a: D.FisherSnedecor(a.abs() + 1, P + 3),
    "Wishart": lambda a: D.Wishart(torch.tensor(8.0), torch.eye(6) * a.abs().mean()),
    "LKJCholesky": lambda a: D.LKJCholesky(3, a.abs().mean()),
}


def drawn(make, a):
    made = make(a)
    sample = made.rsample() if made.has_rsample else made.sample()
    found = [sample, made.log_prob(sample)]
    for what in ("entropy", "mean", "variance"):
        try:
            value = getattr(made, what)
            found.append(value() if callable(value) else value)
        except NotImplementedError:
            pass
    return tuple(found)


def parametrized():
    yield "spectral_norm", lambda: (parametrizations.spectral_norm(nn.Linear(6, 6)), X)
    yield "spectral_norm conv", lambda: (nn.utils.spectral_norm(nn.Conv2d(4, 4, 3)), IMAGE)
    yield "weight_norm", lambda: (parametrizations.weight_norm(nn.Linear(6, 6)), X)
    yield "old weight_norm", lambda: (nn.utils.weight_norm(nn.Conv1d(4, 4, 3)), SERIES)
    for how in ("matrix_exp", "cayley", "householder"):
        yield f"orthogonal {how}", lambda how=how: (parametrizations.orthogonal(nn.Linear(6, 6), orthogonal_map=how), X)


def quantised():
    from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver, default_per_channel_weight_fake_quant

    yield "fake quantize", lambda: (FakeQuantize(MovingAverageMinMaxObserver), X)
    yield "fake quantize of channels", lambda: (default_per_channel_weight_fake_quant(), X)


def models():
    yield from layers()
    for name, make in DISTRIBUTIONS.items():
        yield name, lambda make=make: (Of(lambda a: drawn(make, a)), X)
    kinds = [
        "Normal",
        "Laplace",
        "Gamma",
        "Beta",
        "Dirichlet",
        "Bernoulli",
        "Categorical",
        "Exponential",
        "Poisson",
        "MultivariateNormal",
        "Uniform",
        "Gumbel",
    ]
    for name in kinds:
        yield f"kl {name}", lambda make=DISTRIBUTIONS[name]: (Of(lambda a: D.kl_divergence(make(a), make(a * 0.5))), X)
    yield from parametrized()
    yield from quantised()
