"""Networks of molecules, of rotations, of fields and Gaussian processes: egnn, e3nn, neuraloperator, gpytorch."""

import torch
import torch.nn as nn
from common import Loss

X = torch.randn(4, 6)


def processes():
    import gpytorch as g

    kernels = {
        "Polynomial": lambda: g.kernels.PolynomialKernel(2),
        "SpectralMixture": lambda: g.kernels.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=6),
    }
    for name, make in kernels.items():
        yield f"gpytorch {name}", lambda make=make: (Loss(g.kernels.ScaleKernel(make()), lambda k, x: k(x).to_dense()), X)
        yield (
            f"gpytorch likelihood {name}",
            lambda make=make: (
                Loss(
                    g.kernels.ScaleKernel(make()),
                    lambda k, x: (
                        -torch.distributions.MultivariateNormal(x.new_zeros(4), k(x).to_dense() + 0.1 * torch.eye(4)).log_prob(x[:, 0])
                    ),
                ),
                X,
            ),
        )


def molecules():
    from egnn_pytorch import EGNN, EGNN_Network

    yield "EGNN", lambda: (EGNN(dim=8), (torch.randn(2, 9, 8), torch.randn(2, 9, 3)))
    yield "EGNN sparse", lambda: (EGNN(dim=8, num_nearest_neighbors=3, norm_coors=True), (torch.randn(2, 9, 8), torch.randn(2, 9, 3)))
    yield "EGNN_Network", lambda: (EGNN_Network(num_tokens=9, dim=8, depth=2), (torch.randint(0, 9, (2, 9)), torch.randn(2, 9, 3)))


def equivariant():
    from e3nn import nn as en, o3

    yield "e3nn linear", lambda: (o3.Linear("4x0e+2x1o", "2x0e+2x1o"), torch.randn(5, 10))
    yield (
        "e3nn tensor product",
        lambda: (o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+1x1o"), (torch.randn(5, 5), torch.randn(5, 4))),
    )
    yield (
        "e3nn harmonics",
        lambda: (Loss(nn.Linear(3, 3), lambda f, x: o3.spherical_harmonics([0, 1, 2, 3], f(x), True)), torch.randn(5, 3)),
    )
    yield "e3nn gate", lambda: (en.Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o"), torch.randn(5, 6))
    yield "e3nn batch norm", lambda: (en.BatchNorm("4x0e+2x1o"), torch.randn(5, 10))


def operators():
    import neuralop.models as m

    for modes in ((4,), (4, 4), (4, 4, 4)):
        x = torch.randn(2, 3, *[8] * len(modes))
        for more in (
            {},
            {"factorization": "tucker", "implementation": "factorized", "rank": 0.5},
            {"factorization": "cp", "implementation": "factorized", "rank": 0.5},
            {"factorization": "tt", "rank": 0.5},
            {"norm": "group_norm"},
            {"norm": "instance_norm"},
            {"separable": True},
            {"stabilizer": "tanh"},
            {"domain_padding": 0.1},
            {"complex_data": True},
        ):
            yield (
                f"FNO {len(modes)} {more}",
                lambda modes=modes, more=more, x=x: (
                    m.FNO(n_modes=modes, in_channels=3, out_channels=1, hidden_channels=8, n_layers=2, **more),
                    x + 0j if "complex_data" in more else x,
                ),
            )
    for name in ("LpLoss", "H1Loss"):
        from neuralop import losses

        yield (
            name,
            lambda name=name: (
                Loss(nn.Conv2d(1, 1, 3, padding=1), lambda f, x: getattr(losses, name)(d=2)(f(x), x)),
                torch.randn(2, 1, 16, 16),
            ),
        )


def models():
    for group in (processes, molecules, equivariant, operators):
        yield from group()
