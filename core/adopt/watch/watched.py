"""Watches what a script trains, from a model's call to backward, and writes it after some steps: the model with its loss as one
program, its weights, the batches, the optimizer, the schedule. Nothing of the script is changed, but that dropout is off while
it is watched, and torch.compile leaves models as they are.
"""

import atexit
import inspect
import json
import os
import sys
import traceback

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

ASKED = json.loads(os.environ["HPCTRAIN_ADOPT"])
OUT, STEPS = ASKED["out"], ASKED["steps"]

# What the script does with values in Python is no part of a graph.
VALUES = ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__")


class Seen:
    """All that is known so far."""

    def __init__(self):
        self.model = self.state = self.training = None
        self.optimizers, self.schedulers, self.loader, self.clip = [], [], None, None
        self.depth, self.calls, self.value_calls = 0, None, []
        self.first, self.batches, self.losses, self.rates, self.norms = None, [], [], [], []
        self.steps, self.micro, self.per_step = 0, 0, []
        self.amp, self.scaled, self.draws, self.where = None, {}, [], {}
        self.odd = []
        # While batches are compared nothing is drawn; a program that is exported draws, or does not.
        self.quiet, self.exporting = True, False


S = Seen()


def place():
    """The line of the script that led here."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if os.path.isfile(name) and os.path.abspath(name) != os.path.abspath(__file__):
            inside = any(part in name for part in ("/site-packages/", "/dist-packages/", sys.base_prefix + "/lib/"))
            if not inside:
                return f"{os.path.relpath(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def odd(what):
    told = {"what": what, "where": place()}
    if told not in S.odd:
        S.odd.append(told)


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


def like_in_place(value):
    return lambda function, args, kwargs: ((lambda t, *_, **__: t.fill_(value)), args, {})


def filled(make, value):
    """In the place of what is drawn stands one number: compared are the same steps, not the same draws."""

    def instead(function, args, kwargs):
        kwargs = {key: one for key, one in kwargs.items() if key != "generator"}
        return (lambda *a, **k: make(*a, **k).fill_(value)), args, kwargs

    return instead


def like(value):
    return lambda function, args, kwargs: ((lambda t, *_, **__: torch.full_like(t, value)), args, {})


RANDOM = {
    **{"randn": filled(torch.empty, 0.0), "randn_like": like(0.0), "rand": filled(torch.empty, 0.5), "rand_like": like(0.5)},
    **{"bernoulli": like(1.0), "normal_": like_in_place(0.0), "uniform_": like_in_place(0.5), "bernoulli_": like_in_place(1.0)},
    "normal": like(0.0),
}


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


def silence(model):
    """Dropout would give other numbers here and there: it is off while batches are compared, and on again in what is exported."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            S.draws.append((module, module.p))
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float) and module.dropout > 0:
            S.draws.append((module, module.dropout))
            module.dropout = 0.0


def again():
    for module, share in S.draws:
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = share
        else:
            module.dropout = share


FUNCTIONAL = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
functional = {}


def watch_dropout():
    for name in FUNCTIONAL:
        functional[name] = getattr(torch.nn.functional, name)

        def off(input, p=0.5, training=True, inplace=False, of=functional[name]):
            if training and p > 0 and (S.depth > 0 or S.exporting):
                S.where.setdefault("dropout", place())
                return of(input, 0.0 if S.quiet else p, training, inplace)
            return of(input, p, training, inplace)

        setattr(torch.nn.functional, name, off)
    attention = torch.nn.functional.scaled_dot_product_attention

    def attend(*args, **kwargs):
        if (S.depth > 0 or S.exporting) and kwargs.get("dropout_p", 0) > 0:
            S.where.setdefault("dropout", place())
            kwargs = kwargs | ({"dropout_p": 0.0} if S.quiet else {})
        return attention(*args, **kwargs)

    torch.nn.functional.scaled_dot_product_attention = attend


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


class Unfit(Exception):
    pass


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if torch.is_tensor(t)]


class Graph:
    """The functions from the model's call to the loss, without those that lead nowhere."""

    def __init__(self, calls, loss):
        self.made, self.outside, self.calls = {}, [], []
        made, before = {}, []  # by a tensor's id the call that made it last; for each call those that it needs
        for index, (function, args, kwargs, out) in enumerate(calls):
            before.append({made[id(t)] for t in tensors((args, kwargs)) if id(t) in made})
            for t in tensors(out):
                made[id(t)] = index
        if id(loss) not in made:
            raise Unfit("the loss is not made of the model's outputs by torch's functions")
        self.keeps_alive = calls  # ids stay what they are
        needed, left = set(), [made[id(loss)]]
        while left:
            index = left.pop()
            if index not in needed:
                needed.add(index)
                left.extend(before[index])
        parameters = {id(p) for p in S.model.parameters()} | {id(b) for b in S.model.buffers()}
        known = {}
        for index in sorted(needed):
            function, args, kwargs, out = calls[index]

            def ref(t):
                if not torch.is_tensor(t):
                    return t
                if id(t) in parameters:
                    raise Unfit("the loss reads a weight of the model by itself")
                if id(t) not in known:
                    known[id(t)] = ("outside", len(self.outside))
                    self.outside.append(t)
                return Ref(*known[id(t)])

            self.calls.append((function, tree_map(ref, args), tree_map(ref, kwargs)))
            for place_, t in enumerate(tree_flatten(out)[0]):
                if torch.is_tensor(t):
                    known[id(t)] = ("made", len(self.calls) - 1, place_)
                    self.made[id(t)] = t
        self.loss = known[id(loss)]
        self.models = [i for i, (function, _, _) in enumerate(self.calls) if isinstance(function, torch.nn.Module)]
        if not self.models:
            raise Unfit("the loss does not depend on the model")
        self.names = self.named()

    def shape(self):
        return [getattr(function, "__name__", type(function).__name__) for function, _, _ in self.calls]

    def named(self):
        """Inputs have the names of forward's parameters, what comes from elsewhere is called target."""
        names = {}
        for nth, index in enumerate(self.models):
            function, args, kwargs = self.calls[index]
            try:
                bound = inspect.signature(function.forward).bind(*args, **kwargs).arguments
            except (TypeError, ValueError):
                bound = {}
            for name, value in bound.items():
                for k, r in enumerate(r for r in tree_flatten(value)[0] if isinstance(r, Ref) and r.kind == "outside"):
                    names.setdefault(r.at[0], name + (f"_{nth}" if nth else "") + (f"_{k}" if k else ""))
        others = [i for i in range(len(self.outside)) if i not in names]
        for k, i in enumerate(others):
            names[i] = "target" + (f"_{k}" if len(others) > 1 else "")
        return [names[i] for i in range(len(self.outside))]


class Ref:
    def __init__(self, kind, *at):
        self.kind, self.at = kind, at


class Whole(torch.nn.Module):
    """The model and its loss, as the script calls them."""

    def __init__(self, graph, scale):
        super().__init__()
        self.model = S.model
        self.graph, self.scale = [graph], scale  # in a list: no module of its own

    def forward(self, *inputs):
        (graph,), made, given = self.graph, [], iter(inputs)
        outside = [next(given) if t.dim() else t for t in graph.outside]  # a single number stays what it was

        def value(r):
            if not isinstance(r, Ref):
                return r
            return outside[r.at[0]] if r.kind == "outside" else made[r.at[0]][r.at[1]]

        isref = lambda r: isinstance(r, Ref)  # noqa: E731
        for function, args, kwargs in graph.calls:
            run = self.model if isinstance(function, torch.nn.Module) else function
            words = tree_map(value, args, is_leaf=isref)
            out = run(*words, **tree_map(value, kwargs, is_leaf=isref))
            made.append(tree_flatten(words[0] if out is None else out)[0])  # __setitem__ gives nothing
        _, at, place_ = graph.loss
        loss = made[at][place_]
        first = [t for t in made[graph.models[0]] if torch.is_tensor(t) and t.dim() > 0]
        loss = loss if self.scale == 1 else loss * self.scale
        return {"output": first[0], "loss": loss} if first else {"loss": loss}


def watch_optimizers():
    init = torch.optim.Optimizer.__init__

    def begin_one(self, params, defaults):
        init(self, params, defaults)
        S.optimizers.append(self)
        S.where.setdefault("optimizer", place())
        if len(S.optimizers) > 1:
            odd(f"a second optimizer, {type(self).__name__}")
        else:
            self.register_step_pre_hook(before)
            self.register_step_post_hook(after)

    def before(optimizer, *_):
        S.next = [float(group["lr"]) for group in optimizer.param_groups]

    def after(optimizer, *_):
        if S.micro == 0:
            return
        S.steps += 1
        S.per_step.append(S.micro)
        S.micro = 0
        S.rates.append(S.next)
        if S.steps >= STEPS:
            finish()

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
    torch.compile = lambda model=None, **_: (lambda m: m) if model is None else model


def begin():
    watch_models()
    watch_dropout()
    watch_backward()
    watch_optimizers()
    watch_rest()
    Recorder().__enter__()
    atexit.register(ended)


def plain(value):
    if torch.is_tensor(value):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if isinstance(value, (int, float, str, bool)) or value is None else None


def groups_of(optimizer):
    names = {id(p): name for name, p in S.model.named_parameters()}
    return [
        {key: plain(value) for key, value in group.items() if key != "params"}
        | {"params": [names.get(id(p)) for p in group["params"]], "frozen": sum(not p.requires_grad for p in group["params"])}
        for group in optimizer.param_groups
    ]


def schedule_of(scheduler):
    known = {key: plain(value) for key, value in vars(scheduler).items() if not key.startswith("_") and key != "optimizer"}
    return {"type": type(scheduler).__name__, **{key: value for key, value in known.items() if value is not None}}


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


def named(graph, scale):
    """Its forward takes inputs by their names, which the program keeps."""
    names = ", ".join(name for name, t in zip(graph.names, graph.outside) if t.dim())
    made = {"Whole": Whole}
    exec(f"class Named(Whole):\n    def forward(self, {names}):\n        return Whole.forward(self, {names})", made)  # noqa: S102
    return made["Named"](graph, scale)


def export(graph, scale, name):
    """With a batch of any size where forward allows it."""
    whole = named(graph, scale).train()
    example = tuple(t.detach().clone() for t in graph.outside if t.dim())
    dynamic = tuple({0: torch.export.Dim.AUTO} for _ in example)
    why = None
    for shapes in (dynamic, None):
        try:
            program = torch.export.export(whole, example, dynamic_shapes=shapes, strict=False)
            break
        except Exception as error:  # noqa: BLE001
            why = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}" if str(error).strip() else type(error).__name__
    else:
        return why
    if shapes is None:
        odd(f"forward is for batches of {example[0].shape[0]} alone ({why})")
    unprefixed(program)
    torch.export.save(program, os.path.join(OUT, name))
    return None


def unprefixed(program):
    """Weights have the names that the script's own model gives them."""
    short = lambda name: name.removeprefix("model.") if isinstance(name, str) else name  # noqa: E731
    signature = program.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        spec.target = short(spec.target)
    for held in (program._state_dict, program._constants):
        for key in list(held):
            held[short(key)] = held.pop(key)


def finish():
    """Writes what was seen, and ends the script."""
    code = 0
    try:
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
    optimizer, micro = S.optimizers[0], S.per_step[-1]
    divides = graph.calls[-1]
    scale = 1
    name = getattr(divides[0], "__name__", "")
    if micro > 1 and name in ("div", "true_divide", "__truediv__") and divides[1][1:] == (micro,):
        scale = micro
    model, mode = S.model, S.training
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
    full = [b for b in S.batches if all(x.shape == y.shape for x, y in zip(b, first))]
    arrays = {}
    inputs = [k for k, t in enumerate(graph.outside) if t.dim()]
    for k in inputs:
        rows = torch.cat([b[k] for b in full])
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
            "same_batches": len(full),
            "batches": len(S.batches),
            "micro": micro,
            "batch": first[inputs[0]].shape[0],
            "losses": [loss * scale for loss in S.losses],
            "rates": S.rates,
            "norms": S.norms,
            "clip": S.clip,
            "amp": S.amp,
            "optimizer": type(optimizer).__name__,
            "groups": groups_of(optimizer),
            "schedulers": [schedule_of(one) for one in S.schedulers],
            "loader": loader_of(S.loader),
        }
    )


def tell(found):
    with open(os.path.join(OUT, "seen.json"), "w") as file:
        json.dump(found, file, indent=1, default=str)
