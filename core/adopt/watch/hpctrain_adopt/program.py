"""The calls from a model to its loss as a program, which torch.export writes."""

import inspect
import os

import torch
from torch.utils._pytree import tree_flatten, tree_map

from .seen import OUT, S, odd, tensors


class Unfit(Exception):
    pass


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
