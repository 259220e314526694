"""The models with their losses as a program, which torch.export writes."""

import os

import torch
from torch.utils._pytree import tree_flatten, tree_map

from .graph import MAKERS, is_ref
from .drawn import RANDOM
from .seen import OUT, S, odd


def replay(call, words, keywords, batch):
    """A function of torch's as a program can have it; what was made for a batch is made for any."""
    function, name = call.function, call.name
    of = getattr(getattr(function, "__self__", None), "__name__", "")
    if name == "__get__" and of == "data":
        return words[0].detach()
    if name == "__set__" and of == "data":
        return words[0].detach().copy_(words[1])
    if name.startswith("_foreach_"):
        one, count = getattr(torch.Tensor, name.removeprefix("_foreach_")), len(words[0])
        pick = lambda value, i: value[i] if isinstance(value, (list, tuple)) and len(value) == count else value  # noqa: E731
        return [one(*[pick(w, i) for w in words], **{k: pick(v, i) for k, v in keywords.items()}) for i in range(count)]
    if name in MAKERS or (name in RANDOM and not any(torch.is_tensor(w) for w in words)):
        words = [sized(word, batch) for word in words[:1]] + [*words[1:]]
        keywords = {k: sized(v, batch) if k == "size" else v for k, v in keywords.items() if k != "generator"}
    return function(*words, **keywords)


def sized(size, batch):
    """With the batch's own size where it was the first one's."""
    count, now = batch
    if isinstance(size, (list, tuple)):
        return [sized(one, batch) if k == 0 else one for k, one in enumerate(size)]
    return now if size == count and not isinstance(size, bool) else size


class AfterStep(torch.nn.Module):
    """hpctrain runs what lies in a module of this name, after_step, when the weights have been updated."""

    def forward(self, run):
        with torch.no_grad():
            run()


class Whole(torch.nn.Module):
    """The models and their losses, as the script calls them, and what follows a step."""

    def __init__(self, graph, after, names, scale):
        super().__init__()
        for root in graph.roots:
            self.add_module(root.name, root.module)
        self.after_step = AfterStep()
        self.graph, self.after, self.names, self.scale = [graph], [after], names, scale  # in lists: no modules of its own

    def forward(self, *inputs):
        (graph,), (after,), given = self.graph, self.after, iter(inputs)
        own = graph.given()
        outside = [next(given) if i in own else t for i, t in enumerate(graph.outside)]
        first = next(iter(own), None)
        batch = (0, 0) if first is None else (graph.outside[first].shape[0], outside[first].shape[0])
        state = [dict([*r.module.named_parameters(), *r.module.named_buffers()]) for r in graph.roots]
        made, outputs = self.run(graph.calls, state, outside, batch), []
        for at, place in [loss.at for loss in graph.losses]:
            outputs.append(made[at][place])
        if after is not None and after.calls:
            self.after_step(lambda: self.run(after.calls, state, [], batch))
        if len(outputs) == 1 and self.scale != 1:
            outputs = [outputs[0] * self.scale]
        shown = {} if graph.shown is None else {"output": next(t for t in made[graph.shown] if torch.is_tensor(t) and t.dim() > 0)}
        return shown | dict(zip(self.names, outputs))

    def run(self, calls, state, outside, batch):
        (graph,), made = self.graph, []

        def value(r):
            if not is_ref(r):
                return r
            if r.kind == "state":
                return state[r.at[0]][r.at[1]]
            return outside[r.at[0]] if r.kind == "outside" else made[r.at[0]][r.at[1]]

        for call in calls:
            if call.drawn is not None and (S.quiet or call.drawn.at[0] not in graph.drawn):
                made.append([value(call.drawn)])
                continue
            words = tree_map(value, list(call.args), is_leaf=is_ref)
            keywords = tree_map(value, call.kwargs, is_leaf=is_ref)
            if call.grad:
                out = self.call(call, words, keywords, batch)
            else:
                with torch.no_grad():
                    out = self.call(call, words, keywords, batch)
            made.append(tree_flatten(words[0] if out is None else out)[0])  # __setitem__ gives nothing
        return made

    def call(self, call, words, keywords, batch):
        if isinstance(call.function, torch.nn.Module):
            return call.function(*words, **keywords)
        return replay(call, words, keywords, batch)


def named(graph, after, losses, scale):
    """Its forward takes inputs by their names, which the program keeps."""
    names = ", ".join(graph.names[i] for i in graph.given())
    made = {"Whole": Whole}
    exec(f"class Named(Whole):\n    def forward(self, {names}):\n        return Whole.forward(self, {names})", made)  # noqa: S102
    return made["Named"](graph, after, losses, scale)


def export(graph, after, losses, scale, name):
    """With a batch of any size where forward allows it."""
    whole = named(graph, after, losses, scale)
    for root in graph.roots:
        for key, module in root.module.named_modules():
            module.training = root.training[key]
    example = tuple(graph.outside[i].detach().clone() for i in graph.given())
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
    if len(graph.roots) == 1:
        unprefixed(program, graph.roots[0].name)
    torch.export.save(program, os.path.join(OUT, name))
    return None


def unprefixed(program, root):
    """Weights have the names that the script's own model gives them."""
    short = lambda name: name.removeprefix(f"{root}.") if isinstance(name, str) else name  # noqa: E731
    signature = program.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        spec.target = short(spec.target)
    for held in (program._state_dict, program._constants):
        for key in list(held):
            held[short(key)] = held.pop(key)
