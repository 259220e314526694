"""Writes what was seen, and ends the script."""

import itertools
import json
import os
import sys
import traceback

import torch

from .data import FIELDS, read_data
from .drawn import again
from .program import export
from .seen import OUT, STEPS, S, odd
from .timed import TIMES, end_timing, plain, schedules


def groups_of(optimizer):
    names = {id(p): name for name, p in S.model.named_parameters()}
    return [
        {key: plain(value) for key, value in group.items() if key != "params"}
        | {"params": [names.get(id(p)) for p in group["params"]], "frozen": sum(not p.requires_grad for p in group["params"])}
        for group in optimizer.param_groups
    ]


def loader_of(loader):
    if loader is None:
        return None
    dataset = loader.dataset
    return {
        "batch_size": loader.batch_size,
        "drop_last": loader.drop_last,
        "shuffle": isinstance(loader.sampler, torch.utils.data.RandomSampler),
        "dataset": type(dataset).__name__,
        "samples": len(dataset) if hasattr(dataset, "__len__") else None,
        "root": str(getattr(dataset, "root", "") or ""),
        "transform": repr(getattr(dataset, "transform", None)),
    }


def ranks():
    """The number of this process among those of a job, and of them all."""
    of = torch.distributed
    return (of.get_rank(), of.get_world_size()) if of.is_available() and of.is_initialized() else (0, 1)


def is_first():
    """Of several processes that train one is written, and of a job's its first rank."""
    if ranks()[0] > 0:
        return False
    try:
        os.close(os.open(os.path.join(OUT, "seen.json"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def finish():
    """Writes what was seen, and ends the script."""
    code = 0
    try:
        if is_first():
            end_timing()
            write()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def ended():
    """The script ended by itself, before so many steps."""
    if S.steps > 0 and S.steps < STEPS:
        odd(f"the script ended after {S.steps} steps")
    if S.steps > 0 or S.odd:
        finish()


def write():
    import numpy as np

    graph = S.first
    found = {"steps": S.steps, "odd": S.odd, "where": S.where, "torch": torch.__version__}
    if graph is None or S.steps == 0:
        tell(found | {"error": "no step was seen whose loss comes from a model by torch's functions"})
        return
    optimizer, micro = S.optimizers[0], S.per_step[0]
    divides = graph.calls[-1]
    scale = 1
    name = getattr(divides[0], "__name__", "")
    if micro > 1 and name in ("div", "true_divide", "__truediv__") and divides[1][1:] == (micro,):
        scale = micro
    model, mode, device = S.model, S.training, next(S.model.parameters()).device.type
    with torch.no_grad():
        current = model.state_dict()
        for key, value in S.state.items():
            current[key].copy_(value)
    for key, module in model.named_modules():
        module.training = mode[key]
    whys = {"quiet": None, "program": None}
    model = model.cpu()
    graph.outside = [t.cpu() for t in graph.outside]
    S.exporting = True
    draws = bool(S.draws) or "dropout" in S.where or "random" in S.where
    if draws:
        whys["quiet"] = export(graph, scale, "steps.pt2")
    S.quiet = False
    again()
    whys["program"] = export(graph, scale, "model.pt2")
    first = S.batches[0]
    # The script was trained by what lies between, too, so that the first batch of another size ends what can be compared.
    full = list(itertools.takewhile(lambda b: all(x.shape == y.shape for x, y in zip(b, first)), S.batches))
    even = sum(1 for _ in itertools.takewhile(lambda count: count == micro, S.per_step))
    compared = min(even, len(full) // micro)
    if compared < S.steps:
        odd(f"step {compared + 1} has batches of another size, or more or fewer of them: the steps before it are compared")
    if ranks()[1] > 1 and compared > 1:
        compared = 1
        odd(f"the script has {ranks()[1]} ranks, and the batches of the others are not seen: the first step is compared")
    arrays = {}
    inputs = [k for k, t in enumerate(graph.outside) if t.dim()]
    for k in inputs:
        rows = torch.cat([b[k] for b in full or [first]])
        arrays[graph.names[k]] = (rows.float() if rows.is_floating_point() else rows).numpy()
    np.savez(os.path.join(OUT, "steps.npz"), **arrays)
    tell(
        found
        | {
            "model": type(S.model).__name__,
            "parameters": sum(p.numel() for p in S.model.parameters()),
            "inputs": [
                {"name": graph.names[k], "shape": list(graph.outside[k].shape), "dtype": str(graph.outside[k].dtype)}
                for k in inputs
            ],
            "loss_of": graph.shape(),
            "draws": draws,
            "why": whys,
            "compared": compared,
            "micro": micro,
            "batch": first[inputs[0]].shape[0],
            "losses": [loss * scale for loss in S.losses],
            "rates": S.rates,
            "norms": S.norms,
            "clip": S.clip,
            "amp": S.amp,
            "optimizer": type(optimizer).__name__,
            "others": S.others,
            "groups": groups_of(optimizer),
            "schedulers": schedules(),
            "loader": loader_of(FIELDS["loader"] or S.loader),
            "times": TIMES,
            "threads": torch.get_num_threads(),
            "device": device,
            "data": read_data(),
        }
    )


def tell(found):
    with open(os.path.join(OUT, "seen.json"), "w") as file:
        json.dump(found, file, indent=1, default=str)
