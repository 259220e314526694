"""Reads what hpctrain writes, with numpy alone; pandas, torch and xarray are used where they are asked for.

    import hpctrain

    checkpoint = hpctrain.checkpoint("checkpoints/first_best.pt")   # or .safetensors, or a folder .ckpt
    checkpoint.weights["0.weight"]                                  # numpy, as validation saw them
    model.load_state_dict(checkpoint.state_dict())                  # torch

    hpctrain.predictions("predicted.npz")                           # a pandas DataFrame, or an xarray Dataset

    run = hpctrain.run("logs/first")
    run.steps.plot(y="loss")                                        # pandas
    hpctrain.runs("logs")                                           # a row for each run
"""

from .checkpoints import Checkpoint, checkpoint
from .predictions import predictions
from .runs import Run, run, runs

__all__ = ["Checkpoint", "Run", "checkpoint", "predictions", "run", "runs"]
