"""torch_geometric: networks on one fixed graph, whose nodes' features are the samples."""
import torch
from case import Case, numbers, whole
from torch_geometric import nn as g

LIBRARY = "torch_geometric"

NODES, FEATURES = 10, 6
PAIRS = [(i, (i * 3 + j) % NODES) for i in range(NODES) for j in (1, 2, 4)]


class OnGraph(torch.nn.Module):
    """A batch of graphs is one graph of as many parts, as torch_geometric's loader makes it."""

    def __init__(self, body, positions=False, pooled=0):
        super().__init__()
        self.body, self.positions = body, positions
        self.head = torch.nn.Linear(16, pooled) if pooled else None
        self.register_buffer("edges", torch.tensor(PAIRS).t().contiguous(), persistent=False)

    def forward(self, x):
        count = x.shape[0]
        place = torch.arange(count, device=x.device)
        edges = (self.edges[:, None] + NODES * place[None, :, None]).reshape(2, -1)
        y = self.body(x.reshape(-1, x.shape[-1]), edges)
        if self.head is not None:
            batch = place[:, None].expand(count, NODES).reshape(-1)
            return self.head(g.global_mean_pool(y, batch, count))
        return y.reshape(count, NODES, -1)


class Dense(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.first, self.second = layer(FEATURES, 16), layer(16, 1)
        matrix = torch.zeros(NODES, NODES)
        matrix[[a for a, _ in PAIRS], [b for _, b in PAIRS]] = 1
        self.register_buffer("matrix", matrix)

    def forward(self, x):
        return self.second(self.first(x, self.matrix).relu(), self.matrix)


def nodes(body):
    return Case(lambda: OnGraph(body()), {"x": numbers(NODES, FEATURES)}, "numbers", numbers(NODES, 1))


def whole_graphs(body):
    return Case(lambda: OnGraph(body(), pooled=5), {"x": numbers(NODES, FEATURES)}, "classes", whole(5))


def layers(layer):
    return lambda: g.Sequential("x, e", [(layer(FEATURES, 16), "x, e -> x"), torch.nn.ReLU(), (layer(16, 1), "x, e -> x")])


MODELS = {
    "gcn": nodes(lambda: g.GCN(FEATURES, 16, 2, 1, dropout=0.1)),
    "graph_sage": whole_graphs(lambda: g.GraphSAGE(FEATURES, 16, 2)),
    "gin": whole_graphs(lambda: g.GIN(FEATURES, 16, 2, norm="batch_norm")),
    "gat": nodes(lambda: g.GAT(FEATURES, 16, 2, 1, heads=2)),
    "pna": nodes(lambda: g.PNA(FEATURES, 16, 2, 1, aggregators=["mean", "max", "std"], scalers=["identity", "amplification"],
                               deg=torch.tensor([0, 0, 0, NODES]))),
    "edge_cnn": nodes(lambda: g.EdgeCNN(FEATURES, 16, 2, 1)),
    "graph_transformer": nodes(layers(g.TransformerConv)),
    "dense_gcn": Case(lambda: Dense(g.DenseGCNConv), {"x": numbers(NODES, FEATURES)}, "numbers", numbers(NODES, 1)),
}
