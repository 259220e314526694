"""Normalising flows and splines: zuko, nflows, normflows, pykan."""

import torch
import torch.nn as nn
from common import Loss

X = torch.randn(4, 6)


def flows():
    import zuko

    for name in ("NICE", "MAF", "NSF", "NCSF", "GF", "RealNVP", "GMM"):
        yield (
            f"zuko {name}",
            lambda name=name: (Loss(getattr(zuko.flows, name)(6, 0), lambda flow, x: -flow().log_prob(x).mean()), X.sigmoid()),
        )
        yield (
            f"zuko {name} conditional",
            lambda name=name: (
                Loss(getattr(zuko.flows, name)(3, 3), lambda flow, x: -flow(x[:, 3:]).log_prob(x[:, :3]).mean()),
                X.sigmoid(),
            ),
        )


def other_flows():
    import nflows.transforms as t
    from nflows.distributions.normal import StandardNormal
    from nflows.flows import Flow

    kinds = {
        "affine": lambda: t.MaskedAffineAutoregressiveTransform(6, 16),
        "lu": lambda: t.LULinear(6),
        "qr": lambda: t.QRLinear(6, 3),
        "householder": lambda: t.HouseholderSequence(6, 3),
        "permutation": lambda: t.RandomPermutation(6),
        "norm": lambda: t.BatchNorm(6),
    }
    for name, make in kinds.items():
        yield f"nflows {name}", lambda make=make: (Loss(Flow(make(), StandardNormal([6])), lambda flow, x: -flow.log_prob(x).mean()), X)


def more_flows():
    import normflows as nf

    kinds = {
        "affine": lambda: nf.flows.AffineCouplingBlock(nf.nets.MLP([3, 8, 6], init_zeros=True)),
        "spline": lambda: nf.flows.CoupledRationalQuadraticSpline(6, 1, 8),
        "autoregressive": lambda: nf.flows.AutoregressiveRationalQuadraticSpline(6, 1, 8),
        "lu": lambda: nf.flows.LULinearPermute(6),
        "conv": lambda: nf.flows.InvertibleAffine(6),
    }
    for name, make in kinds.items():
        yield (
            f"normflows {name}",
            lambda make=make: (
                Loss(nf.NormalizingFlow(nf.distributions.DiagGaussian(6), [make()]), lambda flow, x: flow.forward_kld(x)),
                X,
            ),
        )


def splines():
    from kan import KAN

    yield "pykan", lambda: (KAN(width=[6, 4, 2], grid=3, k=3, auto_save=False), X)


def models():
    for group in (flows, other_flows, more_flows, splines):
        yield from group()
