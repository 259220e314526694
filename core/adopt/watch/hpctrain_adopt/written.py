"""Writes what was seen, and ends the script."""

import itertools
import json
import math
import os
import sys
import traceback

import torch

from .copied import TARGET
from .data import FIELDS, read_data, shuffles, size_of
from .drawn import again
from .graph import After, Unfit
from .program import export
from .seen import OUT, STEPS, S, odd
from .timed import TIMES, end_timing, plain, schedules


def trained():
    """The ids of what an optimizer trains."""
    return {id(p) for one in S.optimizers for group in one.param_groups for p in group["params"] if p.requires_grad}


def names_in(graph):
    """Weights by their ids, as the program has them: with the model's name before where there are several."""
    several = len(graph.roots) > 1
    return {
        id(p): f"{root.name}.{name}" if several else name
        for root in reversed(graph.roots)
        for name, p in root.module.named_parameters()
    }


def together(params, graph):
    """Whole models by their names, where an optimizer or a group has all that is trained of them; else parameters."""
    ids, learns, names, found = {id(p) for p in params}, trained(), names_in(graph), []
    if len(graph.roots) > 1:
        for root in graph.roots:
            own = {id(p) for p in root.module.parameters()} & learns
            if own and own <= ids:
                found.append(root.name)
                ids -= own
    return found, [names.get(id(p)) for p in params if id(p) in ids]


def groups_of(optimizer, graph):
    groups = []
    for group in optimizer.param_groups:
        models, rest = together(group["params"], graph)
        known = {key: plain(value) for key, value in group.items() if key != "params"}
        if id(optimizer) in S.clips:
            known["clip_norm"] = S.clips[id(optimizer)]
        frozen = sum(not p.requires_grad for p in group["params"])
        groups.append(known | {"params": [f"{name}.*" for name in models] + rest, "frozen": frozen, "size": len(group["params"])})
    return groups


def turn_of(optimizers, graph):
    """The name of a turn's loss says what it trains."""
    models, rest = together([p for one in optimizers for group in one.param_groups for p in group["params"]], graph)
    return "+".join([*models, *(name for name in rest if name is not None)])


def after_of(follows):
    """What follows a step is the same behind each."""
    if S.first is None:
        return
    after = After(follows, S.first, trained())
    if S.after is None:
        S.after = after
    elif after.shape() != S.after.shape():
        odd("other functions move weights after a later step than after the first: the first one's are taken")
    elif after.numbers() != S.after.numbers():
        odd("a number by which weights are moved after the step changes from step to step: the first one's is taken")


def loader_of(loader):
    if loader is None:
        return None
    dataset = loader.dataset
    return {
        "batch_size": size_of(loader),
        "drop_last": loader.drop_last,
        "shuffle": shuffles(loader),
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
    except BaseException as error:  # noqa: BLE001
        traceback.print_exc()
        code = 1
        tell({"odd": S.odd, "error": f"What was seen can't be written: {type(error).__name__}: {error}"})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def refuse(error):
    """Ends the script where its steps can't be trained here."""
    if is_first():
        tell({"odd": S.odd, "error": error[0].upper() + error[1:]})
    sys.stdout.flush()
    os._exit(1)


def ended():
    """The script ended by itself, before so many steps."""
    try:
        if S.follows:
            after_of(S.follows)
    except Unfit as error:
        odd(str(error))
    if S.steps > 0 and S.steps < STEPS:
        odd(f"the script ended after {S.steps} steps")
    if S.steps > 0 or S.odd:
        finish()


def scale_of(graph, micro):
    """A loss that is divided by the number of micro-batches is so no more: --grad-accum does it."""
    last = graph.calls[-1]
    divides = last.name in ("div", "true_divide", "__truediv__") and last.args[1:] == (micro,)
    return micro if micro > 1 and divides else 1


def as_at_first(graph):
    """The models as they were before the first step; what no optimizer trains is frozen."""
    learns = trained()
    for root in graph.roots:
        with torch.no_grad():
            current = root.module.state_dict()
            for key, value in root.state.items():
                current[key].copy_(value)
        for p in root.module.parameters():
            if id(p) not in learns:
                p.requires_grad_(False)
        root.module.cpu()
    graph.outside = [t.cpu() if t.layout == torch.strided else t.cpu().to_dense() for t in graph.outside]
    graph.fix(S.batches)


def names_apart(roots):
    """Names of attributes, which a module has not."""
    taken = set(dir(torch.nn.Module())) | {"after_step", "graph", "after", "names", "scale", "run", "call"}
    for root in roots:
        while root.name in taken or not root.name.isidentifier():
            root.name = f"{root.name if root.name.isidentifier() else 'model'}_"
        taken.add(root.name)


def compared_steps(graph, micro):
    """The script was trained by what lies between, too, so that the first batch of another size ends what can be compared."""
    first = S.batches[0]
    full = list(itertools.takewhile(lambda b: all(x.shape == y.shape for x, y in zip(b, first)), S.batches))
    even = sum(1 for _ in itertools.takewhile(lambda count: count == micro, S.per_step))
    compared = min(even, len(full) // micro, *S.parted[:1])
    finite = sum(1 for _ in itertools.takewhile(lambda losses: all(map(math.isfinite, losses)), S.losses)) // micro
    if finite < compared:
        compared = finite
        odd(f"the script's loss is no number at step {compared + 1}: the steps before it are compared", S.where.get("loss", ""))
    elif compared < S.steps and compared not in S.parted:
        odd(f"step {compared + 1} has batches of another size, or more or fewer of them: the steps before it are compared")
    if ranks()[1] > 1 and compared > 1:
        compared = 1
        odd(f"the script has {ranks()[1]} ranks, and the batches of the others are not seen: the first step is compared")
    return full or [first], compared


def ignored(graph):
    """A class below 0 that stands for no class."""
    whole = [t for i in graph.given() if TARGET.fullmatch(graph.names[i]) for t in (b[i] for b in S.batches) if t.dtype == torch.int64]
    below = {int(v) for t in whole for v in t[t < 0].unique()}
    return below.pop() if len(below) == 1 else None


def channels_last(graph):
    """Weights, or images, lie in memory with their channels last."""
    held = [*graph.values, *(t for root in graph.roots for t in root.state.values())]
    four = [t for t in held if t.dim() == 4 and t.layout == torch.strided]
    return any(not t.is_contiguous() and t.is_contiguous(memory_format=torch.channels_last) for t in four)


def plainly(value):
    """What is no number is null in JSON."""
    if isinstance(value, dict):
        return {key: plainly(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plainly(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write():
    import numpy as np

    graph = S.first
    found = {"steps": S.steps, "odd": S.odd, "where": S.where, "torch": torch.__version__}
    if graph is None or S.steps == 0:
        tell(found | {"error": "no step was seen whose loss comes from a model by torch's functions"})
        return
    micro = S.per_step[0]
    scale = scale_of(graph, micro)
    names_apart(graph.roots)
    alike = len(S.order) == 1 and len({type(one) for one in S.optimizers}) == 1  # one loss trains all: they are groups of one
    turns = [] if alike else [turn_of(optimizers, graph) for optimizers in S.order]
    losses = [f"loss.{name}" for name in turns] or ["loss"]
    parameters = {id(p): p.numel() for root in graph.roots for p in root.module.parameters()}
    device = next(p for root in graph.roots for p in root.module.parameters()).device.type
    as_at_first(graph)
    S.exporting, whys = True, {"quiet": None, "program": None}
    lengths = {graph.names[i]: graph.outside[i].shape[0] for i in graph.given()}
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in lengths.items())
        tell(found | {"error": f"The inputs are not of one length ({text}), so that they are no batch of samples: the first side counts samples here"})
        return
    draws = bool(S.draws) or "dropout" in S.where or "random" in S.where
    inputs = graph.given()
    if draws:
        whys["quiet"] = export(graph, S.after, losses, scale, "steps.pt2")
    S.quiet = False
    again()
    whys["program"] = export(graph, S.after, losses, scale, "model.pt2")
    full, compared = compared_steps(graph, micro)
    arrays = {}
    for k in inputs:
        rows = torch.cat([b[k] for b in full])
        arrays[graph.names[k]] = (rows.float() if rows.is_floating_point() else rows).numpy()
    np.savez(os.path.join(OUT, "steps.npz"), **arrays)
    optimizers = S.optimizers if S.order else S.optimizers[:1]
    tell(
        found
        | {
            "model": ", ".join(type(root.module).__name__ for root in graph.roots),
            "parameters": sum(parameters.values()),
            "inputs": [
                {
                    "name": graph.names[k],
                    "shape": list(graph.outside[k].shape),
                    "dtype": str(graph.outside[k].dtype),
                    "drawn": k in graph.drawn,
                }
                for k in inputs
            ],
            "loss_of": [name for name in graph.shape() if name != "ends_turn"],
            "draws": draws,
            "why": whys,
            "compared": compared,
            "micro": micro,
            "batch": S.batches[0][inputs[0]].shape[0],
            "losses": [[loss * scale for loss in losses] for losses in S.losses],
            "rates": S.rates,
            "norms": S.norms,
            "clip": S.clip,
            "clip_value": S.clip_value,
            "channels_last": channels_last(graph),
            "seed": S.seed,
            "length": S.length,
            "ignored": ignored(graph),
            "fixed": [graph.names[i] for i in sorted(graph.fixed)],
            "amp": S.amp,
            "optimizer": type(optimizers[0]).__name__,
            "turns": [
                {"name": name, "optimizers": [{"type": type(one).__name__, "where": S.places[id(one)]} for one in own]}
                for name, own in zip(turns, S.order)
            ],
            "follows": [] if S.after is None else S.after.shape(),
            "groups": [group for one in optimizers for group in groups_of(one, graph)],
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
        json.dump(plainly(found), file, indent=1, default=str)
