"""Networks of tables, of sparse choices, of codes and of spikes: tab-transformer, rtdl, tabnet, tcn, entmax, vector-quantize, snntorch, torchbnn."""

import torch
import torch.nn as nn
from common import Loss

X, SERIES = torch.randn(4, 6), torch.randn(2, 16, 8)


def tables():
    from tab_transformer_pytorch import FTTransformer, TabTransformer

    yield (
        "TabTransformer",
        lambda: (
            TabTransformer(categories=(5, 5), num_continuous=6, dim=16, dim_out=1, depth=1, heads=2),
            (torch.randint(0, 5, (4, 2)), X),
        ),
    )
    yield (
        "FTTransformer",
        lambda: (FTTransformer(categories=(5, 5), num_continuous=6, dim=16, dim_out=1, depth=1, heads=2), (torch.randint(0, 5, (4, 2)), X)),
    )
    import rtdl_revisiting_models as r

    yield (
        "rtdl ResNet",
        lambda: (r.ResNet(d_in=6, d_out=1, n_blocks=2, d_block=16, d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0), X),
    )
    yield (
        "rtdl FT",
        lambda: (
            r.FTTransformer(
                n_cont_features=6,
                cat_cardinalities=[5, 5],
                d_out=1,
                **{**r.FTTransformer.get_default_kwargs(), "n_blocks": 1, "d_block": 16, "attention_n_heads": 2},
            ),
            (X, torch.randint(0, 5, (4, 2))),
        ),
    )
    from pytorch_tabnet.tab_network import TabNetNoEmbeddings

    for mask in ("sparsemax", "entmax"):
        yield (
            f"TabNet {mask}",
            lambda mask=mask: (TabNetNoEmbeddings(6, 3, n_d=8, n_a=8, n_steps=3, group_attention_matrix=torch.eye(6), mask_type=mask), X),
        )
    from pytorch_tcn import TCN

    yield "TCN", lambda: (TCN(8, [8, 8], kernel_size=3), SERIES.transpose(1, 2))


def sparse():
    import entmax

    for name in ("sparsemax", "entmax15", "sparsemax_loss", "entmax_bisect"):
        yield (
            f"entmax {name}",
            lambda name=name: (
                Loss(
                    nn.Linear(6, 6),
                    lambda f, x: (
                        getattr(entmax, name)(f(x)) if "loss" not in name else entmax.sparsemax_loss(f(x), torch.tensor([0, 1, 2, 3]))
                    ),
                ),
                X,
            ),
        )
    import vector_quantize_pytorch as v

    kinds = {
        "VectorQuantize": dict(dim=8, codebook_size=16),
        "ResidualVQ": dict(dim=8, codebook_size=16, num_quantizers=2),
        "FSQ": dict(levels=[8, 5, 5], dim=8),
        "LFQ": dict(codebook_size=16, dim=8),
        "ResidualFSQ": dict(levels=[8, 5], dim=8, num_quantizers=2),
        "RandomProjectionQuantizer": dict(dim=8, codebook_size=16, codebook_dim=4, num_codebooks=2),
        "SimVQ": dict(dim=8, codebook_size=16),
        "LatentQuantize": dict(levels=[5, 5], dim=8),
        "BinaryMapper": dict(bits=3),
    }
    for name, more in kinds.items():
        yield name, lambda name=name, more=more: (Loss(nn.Linear(8, 8), lambda f, x, q=getattr(v, name)(**more): q(f(x))), SERIES)
    import snntorch as snn
    from snntorch import surrogate

    for name in ("Leaky", "Synaptic", "Alpha", "Lapicque", "RLeaky", "RSynaptic"):
        yield (
            f"snntorch {name}",
            lambda name=name: (
                Loss(
                    nn.Linear(6, 6),
                    lambda f, x, n=getattr(snn, name)(**{"Leaky": dict(beta=0.9), "Lapicque": dict(beta=0.9), "Synaptic": dict(alpha=0.9, beta=0.8), "Alpha": dict(alpha=0.9, beta=0.8), "RLeaky": dict(beta=0.9, all_to_all=False), "RSynaptic": dict(alpha=0.9, beta=0.8, all_to_all=False)}[name], spike_grad=surrogate.fast_sigmoid(), init_hidden=True): (
                        n(f(x))
                    ),
                ),
                X,
            ),
        )
    import torchbnn as bnn

    yield "torchbnn", lambda: (nn.Sequential(bnn.BayesLinear(0, 0.1, 6, 8), nn.ReLU(), bnn.BayesLinear(0, 0.1, 8, 2)), X)
    yield (
        "torchbnn conv",
        lambda: (nn.Sequential(bnn.BayesConv2d(0, 0.1, 3, 8, 3), bnn.BayesBatchNorm2d(0, 0.1, 8)), torch.randn(2, 3, 8, 8)),
    )


def models():
    for group in (tables, sparse):
        yield from group()
