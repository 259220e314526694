"""Watches what a script trains, from a model's call to backward, and writes it after some steps: the model with its loss as one
program, its weights, the batches, the optimizer, the schedule. Nothing of the script is changed, but that dropout is off while
it is watched, and torch.compile leaves models as they are.
"""

import atexit
import sys
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

from .data import batch_seen, watch_data
from .drawn import RANDOM, silence, watch_dropout
from .graph import MAKERS, Call, Graph, Unfit
from .seen import STEPS, Root, S, name_of, odd, place, tensors
from .timed import is_over, leave, stand, time_steps
from .length import length
from .written import after_of, ended, finish, refuse, trained

# What the script does with values in Python is no part of a graph.
VALUES = ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__")


class Recorder(TorchFunctionMode):
    """Torch's functions between a model's call and backward, and behind a step."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        if name in RANDOM and (S.depth > 0 or S.exporting):
            S.where.setdefault("random", place())
            if S.quiet:
                function, args, kwargs = RANDOM[name](function, args, kwargs)
        if S.depth > 0 or S.exporting:
            return function(*args, **kwargs)
        if S.calls is not None:
            keep(args, kwargs)
        out = function(*args, **kwargs)
        told(function, name, args, kwargs, out)
        return out


def keep(args, kwargs):
    """Tensors from outside, as they are when they are first used."""
    for t in tensors((args, kwargs)):
        if id(t) not in S.kept and not isinstance(t, torch.nn.Parameter):
            S.kept[id(t)] = t.detach().clone()
            S.alive.append((t, version(t)))  # another tensor would get its id


def version(t):
    """Counts what was written to it."""
    return None if t.is_inference() else t._version


def changed():
    """What was written to since it was kept, as it is now: if the next model is the first that the loss needs, this is its batch."""
    return {id(t): t.detach().clone() for t, was in S.alive if S.kept.get(id(t)) is not None and version(t) != was}


def told(function, name, args, kwargs, out):
    """What the script draws itself is given to both, and a program draws it."""
    made = any(torch.is_tensor(t) for t in tensors(out))
    drawn = name in RANDOM and torch.is_tensor(out)
    if S.calls is None:
        if S.turns() and (drawn or name in MAKERS):
            S.recent.append(Call(function, args, kwargs, out, out.clone() if drawn else None))
        elif S.follows is not None and (made or name in ("__set__",) or name.startswith("_foreach_")):
            S.follows.append(Call(function, args, kwargs, out if made or name != "__set__" else args[0]))
            if S.follows[-1].in_place():
                S.follows[-1].where = place()
        return
    if name in VALUES:
        S.value_calls.append((args[0], place()))
    elif drawn:
        S.where.setdefault("random", place())
        S.calls.append(Call(function, args, kwargs, out, out.clone()))
    elif name == "__setitem__":
        S.calls.append(Call(function, args, kwargs, args[0]))
    elif made:
        S.calls.append(Call(function, args, kwargs, out))
    for t in tensors(out):
        if id(t) not in S.kept:  # it is made here, and where it has no gradient it may turn out to be a part of the batch
            S.kept[id(t)] = None if t.requires_grad else t.detach().clone()
            S.alive.append((t, version(t)))


WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "_FabricModule")


def bare(model):
    """Without what DDP, DataParallel, Lightning's Fabric and torch.compile put around it."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in WRAPPERS:
            inner = model.module
        if inner is None:
            return model
        model = inner


def trains(model):
    return torch.is_grad_enabled() and model.training and any(p.requires_grad for p in model.parameters())


def root_of(model):
    """The first call that trains a model has its weights and modes; others may have come before."""
    root = next((one for one in S.roots if one.module is model), None)
    if root is None:
        root = Root(model, name_of(model))
        S.roots.append(root)
        silence(model)
    elif root.trained or not trains(model):
        return root
    root.as_now()
    if any(p.is_shared() and p.device.type == "cpu" for p in model.parameters()):
        odd("the weights are shared with other processes, which may train them too: give the script one process to compare")
    if trains(model):
        root.trained = True
        S.where.setdefault("model", place())
    return root


# A validation's calls lead to no loss that trains: of such a list the last ones are enough.
MOST_UNTRAINED = 8


def watch_models():
    called = torch.nn.Module.__call__

    def call(self, *args, **kwargs):
        if S.depth > 0 or is_over():
            return called(self, *args, **kwargs)
        model = bare(self)
        if not any(True for _ in model.parameters()) or S.first is None and S.calls is None and not S.optimizers and not trains(model):
            return called(self, *args, **kwargs)
        begins_step()
        if is_over():
            return called(self, *args, **kwargs)
        root = root_of(model)
        if trains(model):
            if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
                device = "cuda" if torch.is_autocast_enabled("cuda") else "cpu"
                S.amp = str(torch.get_autocast_dtype(device)).replace("torch.", "")
                S.where.setdefault("amp", place())
            S.trained = True
        if S.calls is None:
            S.calls, S.value_calls, S.kept, S.alive, S.trained = [], [], {}, [], trains(model)
        with torch._C.DisableTorchFunction():  # what is kept is not watched
            keep(args, kwargs)
            given = changed()
        with unwatched():
            out = called(self, *args, **kwargs)
        S.calls.append(Call(root.module, args, kwargs, out))
        S.calls[-1].given = given
        for t in tensors(out):
            S.kept.setdefault(id(t), None)
        if not S.trained:
            forget_untrained()
        return out

    torch.nn.Module.__call__ = call


def forget_untrained():
    models = [i for i, call in enumerate(S.calls) if isinstance(call.function, torch.nn.Module)]
    if len(models) > 2 * MOST_UNTRAINED:  # not at each call
        S.calls = S.calls[models[-MOST_UNTRAINED] :]
        S.value_calls = []
        held = {id(t) for call in S.calls for t in tensors((call.args, call.kwargs, call.out))}
        S.alive = [one for one in S.alive if id(one[0]) in held]
        S.kept = {one: S.kept.get(one) for one in held}


def begins_step():
    """A model's call ends what followed the step before."""
    if S.follows is None:
        return
    follows, S.follows = S.follows, None
    try:
        after_of(follows)
    except Unfit as error:
        odd(str(error))
    if S.steps >= STEPS:
        leave()


def watch_backward():
    went = torch.Tensor.backward

    def backward(self, *args, **kwargs):
        if S.calls is not None:
            loss = S.scaled.pop(id(self), self)
            if S.turns():
                if not any(one is loss for one in S.lost):  # torch calls itself, through the recorder
                    S.lost.append(loss)
            else:
                noted([loss])
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


def noted(losses):
    """A micro-batch is over, or a step of several turns: the first one's functions are the program, and of each the tensors that come
    from outside are kept."""
    calls, S.calls = S.calls, None
    try:
        graph = Graph(calls, losses, S.kept)
    except Unfit as error:
        odd(str(error))
        return False
    ends = {id(loss) for loss in losses}
    for value, where in S.value_calls:
        if id(value) in graph.made and id(value) not in ends and not S.turns():  # nothing follows from the loss
            odd("a value is looked at between the model and backward: what follows from it is fixed", where)
    if S.first is None:
        S.first = graph
        S.where["loss"] = place()
    elif graph.shape() != S.first.shape():
        odd("a later step computes its loss by other functions than the first: the steps before it are compared")
        S.parted.append(S.steps)
        if len(S.parted) > STEPS:
            finish()
        return False
    changed = [n for n, t, u in zip(graph.names, graph.values, S.first.values) if t.dim() == 0 and not torch.equal(t, u)]
    if changed:
        odd(f"the number {changed[0]} changes from step to step: the first one's is taken")
    sides = [[t.shape for t in one.values] for one in (graph, S.first)]
    moved = [one.name for one, first in zip(graph.calls, S.first.calls) if one.numbers() != first.numbers()]
    if moved and sides[0] == sides[1]:
        odd(f"a number in {moved[0]} changes from step to step: the first one's is taken")
    carried = graph.carried_from(S.last_calls)
    if carried:
        refuse(f"the model is given as {carried} what it made at the step before ({S.where.get('model')}), and a step here has its batch alone")
    S.last_calls = calls
    S.micro += 1
    S.batches.append([dense(t.detach().cpu()).clone() for t in graph.values])
    S.losses.append([loss.item() for loss in losses])
    batch_seen(graph)
    return True


def dense(t):
    """Programs have no sparse tensors: such a constant is written out."""
    return t if t.layout == torch.strided else t.to_dense()


def ends_turn(*losses):
    """A turn's loss is the sum of those whose backward it had."""
    total = losses[0].clone()
    for loss in losses[1:]:
        total = total + loss
    return total


@contextmanager
def unwatched():
    S.depth += 1
    try:
        yield
    finally:
        S.depth -= 1


def weights_of(optimizer):
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def watch_optimizers():
    init = torch.optim.Optimizer.__init__

    def begin_one(self, params, defaults):
        init(self, params, defaults)
        S.optimizers.append(self)
        S.where.setdefault("optimizer", place())
        S.places[id(self)] = place()
        self.register_step_pre_hook(before)
        self.register_step_post_hook(after)

    def before(optimizer, args, kwargs):
        if S.turns() and S.steps == 0:
            takes_the_place(optimizer)
        S.next[id(optimizer)] = [float(group["lr"]) for group in optimizer.param_groups]
        S.depth += 1  # what it computes is no part of a program; a closure's forward is
        return tuple(map(watched, args)), {key: watched(one) for key, one in kwargs.items()}

    def watched(closure):
        if not callable(closure):
            return closure

        def forward(*args):
            S.depth -= 1
            try:
                return closure(*args)
            finally:
                S.depth += 1

        return forward

    def after(optimizer, *_):
        S.depth -= 1
        if is_over():
            if optimizer is (S.order[-1] if S.order else S.optimizers)[-1]:
                time_steps()
            return
        if not S.turns():
            if S.micro > 0:
                ends([optimizer])
            return
        if S.calls is None:
            return
        refuse_repeats(optimizer)
        if S.lost:
            losses, S.lost = S.lost, []
            with torch.no_grad():
                total = ends_turn(*losses)
            last = Call(ends_turn, tuple(losses), {}, total)
            last.grad = True
            S.calls.append(last)
            S.turn.append((total, [optimizer]))
        elif S.turn:
            S.turn[-1][1].append(optimizer)
        stepped = {id(one) for _, all in S.turn for one in all}
        if len(S.turn) >= MOST_TURNS:
            S.optimizers = [one for one in S.optimizers if id(one) in stepped]
        if all(id(one) in stepped for one in S.optimizers):
            turn, S.turn = S.turn, []
            if noted([total for total, _ in turn]):
                S.order = S.order or [all for _, all in turn]
                ends(S.optimizers)

    def takes_the_place(optimizer):
        """One that was made for the same weights, and has not been used, takes no turns: the script has made it anew."""
        own, used = weights_of(optimizer), {id(optimizer), *(id(one) for _, all in S.turn for one in all)}
        S.optimizers = [one for one in S.optimizers if id(one) in used or not own & weights_of(one)]
        S.where["optimizer"] = S.places[id(S.optimizers[0])]
        if S.turns() or S.calls is None:
            return
        calls, losses, S.lost = S.calls, S.lost, []
        for loss in losses:
            S.calls = calls
            noted([loss])

    def refuse_repeats(optimizer):
        """A critic that takes some steps for each of its generator's has a batch for each of them."""
        again = any(optimizer is one for _, all in S.turn for one in all)
        others = [one for one in S.optimizers if one is not optimizer]
        if again and (S.order or all(any(one is other for _, own in S.turn for one in own) for other in others)):
            told = f"{type(optimizer).__name__} ({S.places[id(optimizer)]})", ", ".join(f"{type(o).__name__} ({S.places[id(o)]})" for o in others)
            refuse(f"the optimizer {told[0]} takes several steps for one of {told[1]}: turns here take one step each, with one batch. Let it take one, where the script has a setting for it")

    def ends(optimizers):
        S.steps += 1
        S.length = S.length or length()
        S.per_step.append(S.micro)
        S.micro = 0
        S.rates.append([rate for one in optimizers for rate in S.next[id(one)]])
        S.follows = []
        if S.steps >= STEPS:
            stand()

    torch.optim.Optimizer.__init__ = begin_one


# An optimizer that has not been heard of in so many turns does nothing.
MOST_TURNS = 16


def watch_rest():
    for scheduler in (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):

        def schedule(self, *args, made=scheduler.__init__, **kwargs):
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
        parameters = [parameters] if torch.is_tensor(parameters) else list(parameters)
        with unwatched():
            norm = clips(parameters, max_norm, *args, **kwargs)
        if S.turns():
            ids = {id(p) for p in parameters}
            clipped = [one for one in S.optimizers if weights_of(one) <= ids]
            if len(clipped) == len(S.optimizers):
                S.clip = float(max_norm)
            else:
                S.clips |= {id(one): float(max_norm) for one in clipped}
            S.where.setdefault("clip", place())
        elif S.calls is None and len(S.norms) < STEPS:
            S.clip = float(max_norm)
            S.norms.append(float(norm))
            S.where.setdefault("clip", place())
            note_parts({id(p) for p in parameters}, *args[:1], **kwargs)
        return norm

    torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = clip

    def note_parts(clipped, norm_type=2.0, **_):
        if float(norm_type) != 2.0:
            odd(f"gradients are clipped by their norm of order {norm_type}, and here by their 2-norm")
        if not trained() <= clipped:
            odd("the gradients of a part of the weights are clipped, and here those of all by their norm")

    for_values = torch.nn.utils.clip_grad_value_

    def clip_value(parameters, clip_value, *args, **kwargs):
        with unwatched():
            for_values(parameters, clip_value, *args, **kwargs)
        if not S.turns():
            S.clip_value = float(clip_value)
            S.where.setdefault("clip_value", place())

    torch.nn.utils.clip_grad_value_ = torch.nn.utils.clip_grad.clip_grad_value_ = clip_value
    seeds = torch.manual_seed

    def seed(value):
        if S.seed is None and S.steps == 0:
            S.seed, S.where["seed"] = int(value), place()
        return seeds(value)

    torch.manual_seed = torch.random.manual_seed = seed
    detect = torch.nn.modules.transformer._detect_is_causal_mask

    def is_causal(mask, *args, **kwargs):
        """torch.export can't look at values: a mask of these sides is what it was in the script."""
        sides = None if mask is None else tuple(mask.shape)
        if not S.exporting:
            S.causal[sides] = detect(mask, *args, **kwargs)
        return S.causal[sides] if sides in S.causal else detect(mask, *args, **kwargs)

    torch.nn.modules.transformer._detect_is_causal_mask = is_causal

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
