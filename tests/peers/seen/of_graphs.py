"""torch_geometric: each of its convolutions, its networks, pools, norms and aggregations on a small graph."""

import torch
from torch_geometric import nn as g

NODES = 10
PAIRS = torch.tensor([(i, (i * 3 + j) % NODES) for i in range(NODES) for j in (1, 2, 4)]).t().contiguous()
X, PLACES, EDGES, KINDS = (
    torch.randn(NODES, 6),
    torch.randn(NODES, 3),
    torch.randn(PAIRS.shape[1], 6),
    torch.randint(0, 3, (PAIRS.shape[1],)),
)
# They want libraries of their own, several kinds of nodes, or sizes that no graph can hold.
LEFT_OUT = (
    "CuGraph",
    "Dynamic",
    "Fused",
    "Grav",
    "HAN",
    "HEAT",
    "HGT",
    "Hetero",
    "Hyper",
    "Mesh",
    "PAN",
    "RGCN",
    "SSG",
    "Spline",
    "SuperGAT",
    "WLConv",
    "XConv",
)
MORE = {
    "ChebConv": {"K": 3},
    "GMMConv": {"dim": 6, "kernel_size": 3},
    "FastRGCNConv": {"num_relations": 3},
    "RGATConv": {"num_relations": 3},
    "FiLMConv": {"num_relations": 3},
    "PDNConv": {"edge_dim": 6, "hidden_channels": 8},
    "PNAConv": {
        "aggregators": ["mean", "max", "std", "var", "sum", "min"],
        "scalers": ["identity", "attenuation", "linear"],
        "deg": torch.tensor([0, 0, 0, NODES]),
    },
    "EGConv": {"num_heads": 2, "num_bases": 2},
}


def layer(name):
    kind, more = getattr(g.conv, name), MORE.get(name) or {}
    mlp = lambda a, b: torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Linear(b, b))
    built = {
        "GINConv": lambda: (kind(mlp(6, 8)), (X, PAIRS)),
        "GINEConv": lambda: (kind(mlp(6, 8), edge_dim=6), (X, PAIRS, EDGES)),
        "EdgeConv": lambda: (kind(mlp(12, 8)), (X, PAIRS)),
        "ECConv": lambda: (kind(6, 8, torch.nn.Linear(6, 48)), (X, PAIRS, EDGES)),
        "PointNetConv": lambda: (kind(mlp(9, 8), mlp(8, 8)), (X, PLACES, PAIRS)),
        "PointConv": lambda: (kind(mlp(9, 8)), (X, PLACES, PAIRS)),
        "PointTransformerConv": lambda: (kind(6, 8), (X, PLACES, PAIRS)),
        "PPFConv": lambda: (kind(mlp(10, 8)), (X, PLACES, PLACES, PAIRS)),
        "PointGNNConv": lambda: (kind(mlp(6, 3), mlp(9, 8), mlp(8, 6)), (X, PLACES, PAIRS)),
        "CGConv": lambda: (kind(6, 6), (X, PAIRS, EDGES)),
        "FAConv": lambda: (kind(6), (X, X, PAIRS)),
        "GCN2Conv": lambda: (kind(6, 0.1, 0.5, 1), (X, X, PAIRS)),
        "AGNNConv": lambda: (kind(), (X, PAIRS)),
        "LGConv": lambda: (kind(), (X, PAIRS)),
        "SimpleConv": lambda: (kind(), (X, PAIRS)),
        "AntiSymmetricConv": lambda: (kind(6), (X, PAIRS)),
        "GPSConv": lambda: (kind(6, g.GCNConv(6, 6), heads=2), (X, PAIRS)),
        "DirGNNConv": lambda: (kind(g.SAGEConv(6, 8)), (X, PAIRS)),
        "MixHopConv": lambda: (kind(6, 8), (X, PAIRS)),
        "SignedConv": lambda: (kind(6, 8, True), (X, PAIRS, PAIRS)),
        "WLConvContinuous": lambda: (kind(), (X, PAIRS)),
        "PDNConv": lambda: (kind(6, 8, **more), (X, PAIRS, EDGES)),
        "GMMConv": lambda: (kind(6, 8, **more), (X, PAIRS, EDGES)),
    }
    if name in built:
        return built[name]
    if "num_relations" in more:
        return lambda: (kind(6, 8, **more), (X, PAIRS, KINDS))
    return lambda: (kind(6, 8, **more), (X, PAIRS))


class Pooled(torch.nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool, self.scale = pool, torch.nn.Parameter(torch.ones(()))

    def forward(self, x, place):
        return (
            self.pool(x * self.scale, place, 2)
            if not isinstance(self.pool, torch.nn.Module)
            else self.pool(x * self.scale, place, dim_size=2)
        )


def models():
    for name in dir(g.conv):
        if name.endswith(("Conv", "ConvContinuous")) and not name.startswith(LEFT_OUT):
            yield name, layer(name)
    place = torch.tensor([0] * 5 + [1] * 5)
    for name in ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN"):
        for norm, jump in (
            ("BatchNorm", "cat"),
            ("LayerNorm", "lstm"),
            ("GraphNorm", "max"),
            ("PairNorm", None),
            ("InstanceNorm", None),
            ("DiffGroupNorm", None),
        ):
            yield (
                f"{name} {norm}",
                lambda name=name, norm=norm, jump=jump: (
                    getattr(g, name)(
                        6, 8, 2, 3, norm=norm, jk=jump, dropout=0.1, **({"norm_kwargs": {"groups": 2}} if norm == "DiffGroupNorm" else {})
                    ),
                    (X, PAIRS),
                ),
            )
    for name in ("global_mean_pool", "global_max_pool", "global_add_pool"):
        yield name, lambda name=name: (Pooled(getattr(g, name)), (X, place))
    for name in (
        "SumAggregation",
        "MeanAggregation",
        "MaxAggregation",
        "MinAggregation",
        "MulAggregation",
        "VarAggregation",
        "StdAggregation",
        "SoftmaxAggregation",
        "PowerMeanAggregation",
        "MedianAggregation",
    ):
        more = {"SoftmaxAggregation": {"learn": True}, "PowerMeanAggregation": {"learn": True}}
        yield name, lambda name=name, m=more.get(name, {}): (Pooled(getattr(g, name)(**m)), (X, place))
    for name in ("DenseGCNConv", "DenseSAGEConv", "DenseGATConv", "DenseGraphConv"):
        yield name, lambda name=name: (getattr(g, name)(6, 8), (torch.randn(2, NODES, 6), torch.ones(2, NODES, NODES)))
    yield "MLP", lambda: (g.MLP([6, 8, 3], norm="batch_norm", dropout=0.1), X)
    yield "LightGCN", lambda: (g.LightGCN(NODES, 8, 2), PAIRS)
