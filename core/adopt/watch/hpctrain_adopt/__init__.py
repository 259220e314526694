"""Watches what a script trains, from a model's call to backward, and writes it after some steps: the model with its loss as one
program, its weights, the batches, the optimizer, the schedule. Nothing of the script is changed, but that dropout is off while
it is watched, and torch.compile leaves models as they are.
"""

import atexit
import sys

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

from .data import batch_seen, watch_data
from .drawn import RANDOM, silence, watch_dropout
from .program import Graph, Unfit
from .seen import STEPS, S, odd, place
from .timed import time_steps
from .written import ended

# What the script does with values in Python is no part of a graph.
VALUES = ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__")


class Recorder(TorchFunctionMode):
    """Torch's functions between a model's call and backward."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        watched = S.depth > 0 or S.calls is not None
        if name in RANDOM and (S.quiet and watched or S.exporting):
            S.where.setdefault("random", place())
            if S.quiet:
                function, args, kwargs = RANDOM[name](function, args, kwargs)
        out = function(*args, **kwargs)
        if S.calls is not None and S.depth == 0:
            if name in VALUES:
                S.value_calls.append((args[0], place()))
            elif name == "__setitem__":
                S.calls.append((function, args, kwargs, args[0]))
            elif any(torch.is_tensor(t) for t in tree_flatten(out)[0]):
                S.calls.append((function, args, kwargs, out))
        return out


def bare(model):
    """Without what DDP, DataParallel and torch.compile put around it."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
            inner = model.module
        if inner is None:
            return model
        model = inner


def trains(model):
    return torch.is_grad_enabled() and model.training and any(p.requires_grad for p in model.parameters())


def watch_models():
    called = torch.nn.Module.__call__

    def call(self, *args, **kwargs):
        if S.depth > 0 or S.steps >= STEPS:
            return called(self, *args, **kwargs)
        model = bare(self)
        if S.model is None and trains(model) and sum(1 for _ in model.children()) + len(list(model.parameters(False))) > 0:
            S.model = model
            S.state = {name: t.detach().clone() for name, t in model.state_dict().items()}
            S.training = {name: module.training for name, module in model.named_modules()}
            S.where["model"] = place()
            silence(model)
        if model is not S.model or not trains(model):
            return called(self, *args, **kwargs)
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            device = "cuda" if torch.is_autocast_enabled("cuda") else "cpu"
            S.amp = str(torch.get_autocast_dtype(device)).replace("torch.", "")
            S.where.setdefault("amp", place())
        S.depth += 1
        try:
            out = called(self, *args, **kwargs)
        finally:
            S.depth -= 1
        if S.calls is None:
            S.calls, S.value_calls = [], []
        S.calls.append((model, args, kwargs, out))
        return out

    torch.nn.Module.__call__ = call


def watch_backward():
    went = torch.Tensor.backward

    def backward(self, *args, **kwargs):
        if S.calls is not None:
            noted(S.scaled.pop(id(self), self))
        return went(self, *args, **kwargs)

    torch.Tensor.backward = backward
    for module in ("torch.amp", "torch.cuda.amp"):
        scaler = getattr(sys.modules.get(module), "GradScaler", None)
        if scaler is None:
            continue
        scales = scaler.scale

        def scale(self, outputs, scales=scales):
            made = scales(self, outputs)
            if torch.is_tensor(made):
                S.scaled[id(made)] = outputs
            return made

        scaler.scale = scale


def noted(loss):
    """A micro-batch is over: the first one's functions are the program, and of each the tensors that come from outside are kept."""
    calls, S.calls = S.calls, None
    try:
        graph = Graph(calls, loss)
    except Unfit as error:
        odd(str(error))
        return
    for value, where in S.value_calls:
        if id(value) in graph.made:
            S.odd.append({"what": "a value is looked at between the model and backward: what follows from it is fixed", "where": where})
    if S.first is None:
        S.first = graph
        S.where["loss"] = place()
    elif graph.shape() != S.first.shape():
        odd("a later step computes its loss by other functions than the first: the first one's are taken")
        return
    changed = [n for n, t, u in zip(graph.names, graph.outside, S.first.outside) if t.dim() == 0 and not torch.equal(t, u)]
    if changed:
        odd(f"the number {changed[0]} changes from step to step: the first one's is taken")
    S.micro += 1
    S.batches.append([t.detach().cpu().clone() for t in graph.outside])
    S.losses.append(loss.item())
    batch_seen(graph)


def watch_optimizers():
    init = torch.optim.Optimizer.__init__

    def begin_one(self, params, defaults):
        init(self, params, defaults)
        S.optimizers.append(self)
        S.where.setdefault("optimizer", place())
        if len(S.optimizers) > 1:
            S.others.append({"type": type(self).__name__, "where": place()})
        else:
            self.register_step_pre_hook(before)
            self.register_step_post_hook(after)

    def before(optimizer, *_):
        S.next = [float(group["lr"]) for group in optimizer.param_groups]

    def after(optimizer, *_):
        if S.steps >= STEPS:
            time_steps()
        if S.micro == 0:
            return
        S.steps += 1
        S.per_step.append(S.micro)
        S.micro = 0
        S.rates.append(S.next)
        if S.steps >= STEPS:
            time_steps()

    torch.optim.Optimizer.__init__ = begin_one


def watch_rest():
    scheduler = torch.optim.lr_scheduler.LRScheduler
    made = scheduler.__init__

    def schedule(self, *args, **kwargs):
        made(self, *args, **kwargs)
        S.schedulers.append(self)
        S.where.setdefault("scheduler", place())

    scheduler.__init__ = schedule
    loads = torch.utils.data.DataLoader.__init__

    def load(self, *args, **kwargs):
        loads(self, *args, **kwargs)
        if S.loader is None:
            S.loader = self
            S.where["loader"] = place()

    torch.utils.data.DataLoader.__init__ = load
    clips = torch.nn.utils.clip_grad_norm_

    def clip(parameters, max_norm, *args, **kwargs):
        norm = clips(parameters, max_norm, *args, **kwargs)
        if S.calls is None and len(S.norms) < STEPS:
            S.clip = float(max_norm)
            S.norms.append(float(norm))
            S.where.setdefault("clip", place())
        return norm

    torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = clip

    def compile(model=None, **_):
        S.where.setdefault("compile", place())
        return (lambda m: m) if model is None else model

    torch.compile = compile


def begin():
    watch_models()
    watch_dropout()
    watch_backward()
    watch_optimizers()
    watch_rest()
    watch_data()
    S.recorder = Recorder()
    S.recorder.__enter__()
    atexit.register(ended)
