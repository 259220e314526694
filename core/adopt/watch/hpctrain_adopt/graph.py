"""The calls of torch's functions that lead from models to losses, and what follows a step."""

import inspect

import torch
from torch.utils._pytree import tree_flatten, tree_map

from .seen import S, odd, tensors

# These make a tensor of sizes alone.
MAKERS = ("full", "ones", "zeros", "arange", "empty")

REFILLED = {"fill_": torch.full_like, "zero_": torch.zeros_like}


class Unfit(Exception):
    pass


class Call:
    """Of a model or a function, with the value of what it drew."""

    def __init__(self, function, args, kwargs, out, drawn=None):
        self.function, self.args, self.kwargs, self.out, self.drawn = function, args, kwargs, out, drawn
        self.grad = torch.is_grad_enabled()
        self.name = getattr(function, "__name__", type(function).__name__)

    def in_place(self):
        return self.name.endswith("_") and not self.name.endswith("__") or self.name in ("__setitem__", "__set__")

    def written(self):
        """What it writes to."""
        kind = getattr(getattr(self.function, "__self__", None), "__name__", "data")
        return tensors(self.args[:1]) if self.in_place() and (self.name != "__set__" or kind == "data") else []  # not .grad

    def numbers(self):
        return [value for value in tree_flatten((self.args[1:], self.kwargs))[0] if isinstance(value, (int, float))]


class Ref:
    def __init__(self, kind, *at):
        self.kind, self.at = kind, at


def is_ref(value):
    return isinstance(value, Ref)


def state_of(roots):
    """By a weight's id the model that has it, and its name there."""
    found = {}
    for at, root in enumerate(roots):
        for name, t in [*root.module.named_parameters(), *root.module.named_buffers()]:
            found.setdefault(id(t), (at, name))
    return found


def needed_for(calls, wanted):
    """Their places, without those that lead nowhere. In place means again."""
    made, before = {}, []
    for index, call in enumerate(calls):
        before.append({made[id(t)] for t in tensors((call.args, call.kwargs)) if id(t) in made})
        for t in [*tensors(call.out), *call.written()]:
            made[id(t)] = index
    found, left = set(), [at if isinstance(at, int) else made[id(at)] for at in wanted if isinstance(at, int) or id(at) in made]
    while left:
        index = left.pop()
        if index not in found:
            found.add(index)
            left.extend(before[index])
    return sorted(found), made


def behind_model(calls, needed):
    """Without the functions that give the first model its batch. Behind a validation they are watched, and at the first step they
    are not."""
    first = next((index for index in needed if isinstance(calls[index].function, torch.nn.Module)), 0)
    before = [i for i in needed if i < first and not any(t.requires_grad for t in tensors(calls[i].out))]
    return [i for i in needed if i not in before], [calls[i] for i in before], getattr(calls[first], "given", {})


def strided(t):
    return t.layout == torch.strided and t.numel() > 0


def remade(call):
    return call.drawn is not None or call.name in MAKERS


class Graph:
    """The functions from the models' calls to the losses; each turn of an optimizer has one."""

    def __init__(self, calls, losses, kept):
        needed, made = needed_for(calls, losses)
        if any(id(loss) not in made for loss in losses):
            raise Unfit("the loss is not made of the model's outputs by torch's functions")
        self.keeps_alive = calls  # ids stay what they are
        needed, before, given = behind_model(calls, needed)
        kept = kept | given
        self.made = {id(t): t for index in needed for t in tensors(calls[index].out)}
        self.calls, self.outside, self.values = [], [], []
        called = {id(calls[index].function) for index in needed}
        self.roots = [root for root in S.roots if id(root.module) in called]
        if not self.roots:
            raise Unfit("the loss does not depend on the model")
        self.known = {key: Ref("state", *at) for key, at in state_of(self.roots).items()}
        recent = {id(t): call for call in [*S.recent, *before] if remade(call) for t in tensors(call.out)} if S.turns() else {}
        for index in needed:
            self.add(calls[index], recent, kept)
        self.losses = [self.known[id(loss)] for loss in losses]
        self.models = [i for i, call in enumerate(self.calls) if isinstance(call.function, torch.nn.Module)]
        self.shown = self.shows([calls[index] for index in needed if isinstance(calls[index].function, torch.nn.Module)])
        self.names = self.named()
        # Where the script draws all that there is, it draws its data.
        drawn = {call.drawn.at[0] for call in self.calls if call.drawn is not None}
        self.fixed = set()  # inputs that are a part of the program
        self.drawn = drawn if any(t.dim() > 0 and i not in drawn for i, t in enumerate(self.outside)) else set()

    def given(self):
        """The inputs that a batch has. A number of no dimensions stays."""
        drawn = set() if S.quiet else self.drawn
        return [i for i, t in enumerate(self.outside) if t.dim() and i not in drawn and i not in self.fixed]

    def fix(self, batches):
        """Where inputs are not of one length, what never changes is a part of the program: a graph's edges, or all of its nodes."""
        if len({self.outside[i].shape[0] for i in self.given()}) < 2 or len(batches) < 2:
            return
        self.fixed = {i for i in self.given() if all(torch.equal(batch[i], batches[0][i]) for batch in batches)}
        if not self.given():  # a batch has something at least
            self.outside.append(torch.zeros(1, 1))
            self.names.append("step")
            for batch in batches:
                batch.append(torch.zeros(1, 1))

    def carried_from(self, calls):
        """The name of an input that a model has made before, for the last loss; null where there is none."""
        made = {t.untyped_storage().data_ptr() for call in calls if isinstance(call.function, torch.nn.Module) for t in tensors(call.out) if strided(t)}
        return next((self.names[i] for i, t in enumerate(self.outside) if strided(t) and t.dim() and t.untyped_storage().data_ptr() in made), None)

    def shows(self, models):
        """A prediction is the largest output of a model that learns; null where none has dimensions."""
        best = None
        for at, call in zip(self.models, models):
            first = next((t for t in tensors(call.out) if t.dim() > 0), None)  # some models give their loss before it
            if first is not None:
                size = (first.requires_grad, first.numel())
                if best is None or size > best[0]:
                    best = (size, at)
        return None if best is None else best[1]

    def add(self, call, recent, kept):
        def ref(t):
            if not torch.is_tensor(t):
                return t
            if id(t) not in self.known and id(t) in recent and self.is_made_again(recent[id(t)], kept.get(id(t))):
                self.add(recent[id(t)], {}, kept)
            if id(t) not in self.known:
                self.known[id(t)] = self.outer(t, kept.get(id(t), t))
            return self.known[id(t)]

        # A turn's losses go backward together, so that nothing may be written over between them: labels are filled again and again.
        refills = S.turns() and call.name in REFILLED and call.args[0]._base is None
        function = REFILLED[call.name] if refills else call.function
        one = Call(function, tree_map(ref, call.args), tree_map(ref, call.kwargs), None)
        one.grad, one.drawn = call.grad, None if call.drawn is None else self.outer(call.out, call.drawn)
        self.calls.append(one)
        for place, t in enumerate(tree_flatten(call.out)[0]):
            if torch.is_tensor(t) and not (call.in_place() and self.known.get(id(t), one).kind == "state"):
                self.known[id(t)] = Ref("made", len(self.calls) - 1, place)

    def is_made_again(self, call, value):
        """What the script has changed since is no longer what the function made."""
        return call.drawn is not None or value is None or torch.equal(call.function(*call.args, **call.kwargs), value)

    def outer(self, t, value):
        if t.grad_fn is not None and value is not None:
            raise Unfit("the loss depends on a tensor with a gradient that no watched function made, such as torch.autograd.grad")
        self.outside.append(t)
        self.values.append(value)
        return Ref("outside", len(self.outside) - 1)

    def shape(self):
        return [call.name for call in self.calls]

    def named(self):
        """Inputs have the names of forward's parameters; what comes from elsewhere is called target, what is drawn noise."""
        names, drawn = {}, [call.drawn.at[0] for call in self.calls if call.drawn is not None]
        for k, i in enumerate(drawn):
            names[i] = "noise" + (f"_{k}" if len(drawn) > 1 else "")
        for nth, index in enumerate(self.models):
            call = self.calls[index]
            try:
                bound = inspect.signature(call.function.forward).bind(*call.args, **call.kwargs).arguments
            except (TypeError, ValueError):
                bound = {}
            for name, value in bound.items():
                for k, r in enumerate(r for r in tree_flatten(value)[0] if is_ref(r) and r.kind == "outside"):
                    names.setdefault(r.at[0], name + (f"_{nth}" if nth else "") + (f"_{k}" if k else ""))
        others = [i for i in range(len(self.outside)) if i not in names]
        for k, i in enumerate(others):
            names[i] = "target" + (f"_{k}" if len(others) > 1 else "")
        return [names[i] for i in range(len(self.outside))]


class After:
    """What follows a step: weights of models that no optimizer trains are moved, such as a teacher's."""

    def __init__(self, calls, graph, trained):
        state = {key: at for key, at in state_of(graph.roots).items()}
        still = {key for key in state if key not in trained}
        aliases, writes = {}, []
        for index, call in enumerate(calls):
            for t in tensors(call.out):  # a teacher's .data, its state_dict
                given = tensors(call.args[:1])
                if given and t.data_ptr() == given[0].data_ptr() and t.shape == given[0].shape:
                    aliases[id(t)] = aliases.get(id(given[0]), id(given[0]))
            written = {aliases.get(id(t), id(t)) for t in call.written()} & set(state)
            if written & still:
                writes.append(index)
            elif written:
                odd("weights that an optimizer trains are changed behind its step, and are not here", call.where)
        needed, _ = needed_for(calls, writes)
        self.keeps_alive, self.calls = calls, []
        known = {key: Ref("state", *at) for key, at in state.items()}
        for index in needed:
            call = calls[index]

            def ref(t):
                if not torch.is_tensor(t):
                    return t
                if id(t) in known:
                    return known[id(t)]
                if t.dim() > 0:
                    raise Unfit("weights are moved after the step by tensors that are no model's")
                return t.detach().clone()

            one = Call(call.function, tree_map(ref, call.args), tree_map(ref, call.kwargs), None)
            one.grad = False
            self.calls.append(one)
            for place, t in enumerate(tree_flatten(call.out)[0]):
                if torch.is_tensor(t) and id(t) not in state:
                    known[id(t)] = Ref("made", len(self.calls) - 1, place)

    def shape(self):
        return [call.name for call in self.calls]

    def numbers(self):
        return [call.numbers() for call in self.calls]

