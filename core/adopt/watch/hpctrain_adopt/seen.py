"""What was seen of the script so far, and the lines of it."""

import json
import os
import sys
from collections import deque

import torch
from torch.utils._pytree import tree_flatten

ASKED = json.loads(os.environ["HPCTRAIN_ADOPT"])
OUT, STEPS = ASKED["out"], ASKED["steps"]
HERE = os.path.dirname(os.path.abspath(__file__))


class Root:
    """A model that the script calls by itself, as it was before its first step."""

    def __init__(self, module, name):
        self.module, self.name, self.trained = module, name, False
        self.as_now()

    def as_now(self):
        module = self.module
        self.state = {key: t.detach().clone() for key, t in module.state_dict().items()}
        self.training = {key: one.training for key, one in module.named_modules()}


class Seen:
    """All that is known so far."""

    def __init__(self):
        self.roots = []
        self.optimizers, self.schedulers, self.loader, self.clip = [], [], None, None
        # The calls of a micro-batch, or of a whole step where optimizers take turns; null between them. Tensors from outside are
        # kept as they were when they were first used. Behind a step, and until the next call of a model, lies what follows it.
        self.depth, self.calls, self.value_calls, self.kept, self.alive, self.follows = 0, None, [], {}, [], None
        self.recent = deque(maxlen=64)  # tensors that were made of sizes alone, before a model was called
        self.first, self.after, self.batches, self.losses, self.rates, self.norms = None, None, [], [], [], []
        self.steps, self.micro, self.per_step, self.next = 0, 0, [], {}
        # Losses since the last optimizer's step, turns since the last whole step, and the optimizers of each turn.
        self.lost, self.turn, self.order, self.places, self.clips, self.trained = [], [], [], {}, {}, False
        self.amp, self.scaled, self.draws, self.where, self.odd = None, {}, [], {}, []
        # Steps that have another shape than the first; what they were made of, for the next to see; the loops around a step.
        self.parted, self.last_calls, self.length, self.seed, self.clip_value, self.causal = [], [], None, None, None, {}
        # While batches are compared nothing is drawn; a program that is exported draws, or does not.
        self.quiet, self.exporting = True, False

    def turns(self):
        """Several optimizers take turns within a step."""
        return len(self.optimizers) > 1


S = Seen()


def place():
    """The line of the script that led here."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if os.path.isfile(name) and not os.path.abspath(name).startswith(HERE):
            inside = any(part in name for part in ("/site-packages/", "/dist-packages/", sys.base_prefix + "/lib/"))
            if not inside:
                return f"{os.path.relpath(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def name_of(module):
    """The name that the script has for it, or that a part of the script has which it is a part of."""
    frame = sys._getframe(1)
    while frame is not None:
        if os.path.abspath(frame.f_code.co_filename).startswith(HERE):
            frame = frame.f_back
            continue
        for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
            if value is module and name not in ("self", "module", "model_") and not name.startswith("_"):
                return name
            parts = getattr(value, "__dict__", None) if name == "self" and value is not module else None
            for part, held in {**(parts or {}), **((parts or {}).get("_modules") or {})}.items():
                if held is module:
                    return part
        frame = frame.f_back
    return type(module).__name__.lower()


def odd(what, where=None):
    told = {"what": what, "where": place() if where is None else where}
    if told not in S.odd:
        S.odd.append(told)


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if torch.is_tensor(t)]
