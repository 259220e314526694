"""neuraloperator: maps to maps."""
from case import Case, numbers
from neuralop import models as n

LIBRARY = "neuraloperator"


class Quantile(n.UQNO):
    """What is trained is how far the solution is off; the solution comes from a part without gradients."""

    def forward(self, x):
        solution, quantile = super().forward(x)
        return {"out": quantile, "solution": solution}


field = lambda channels=1, size=16: numbers(channels, size, size)

MODELS = {
    "neuralop_uqno": Case(lambda: Quantile(n.FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)),
                          {"x": field()}, "numbers", field()),
    "neuralop_fno": Case(lambda: n.FNO(n_modes=(6, 6), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2),
                         {"x": field()}, "numbers", field()),
    "neuralop_fno_1d": Case(lambda: n.FNO(n_modes=(6,), in_channels=2, out_channels=1, hidden_channels=8, n_layers=2,
                                          norm="instance_norm"), {"x": numbers(2, 32)}, "numbers", numbers(1, 32)),
    "neuralop_tfno": Case(lambda: n.TFNO(n_modes=(6, 6), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2,
                                         factorization="tucker", implementation="factorized", rank=0.5),
                          {"x": field()}, "numbers", field()),
    "neuralop_uno": Case(lambda: n.UNO(
        in_channels=1, out_channels=1, hidden_channels=8, uno_out_channels=[8, 8, 8], n_layers=3,
        uno_n_modes=[[4, 4]] * 3, uno_scalings=[[1, 1], [0.5, 0.5], [2, 2]], channel_mlp_skip="linear"), {"x": field()}, "numbers", field()),
    "neuralop_fno_3d": Case(lambda: n.FNO(n_modes=(4, 4, 4), in_channels=1, out_channels=1, hidden_channels=4, n_layers=2,
                                          fno_skip="linear"), {"x": numbers(1, 8, 8, 8)}, "numbers", numbers(1, 8, 8, 8)),
}
