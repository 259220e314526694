"""Steps behind the watched ones, which run as they would without being watched, are timed."""

import functools
import gc
import sys
import time

import torch

from .drawn import again, hush
from .seen import STEPS, S

# So many at most, for so many seconds.
MOST, SECONDS = 20, 10.0
TIMES, ENDS = [], []
# What stands at the last watched step; whether steps are watched no longer, and functions.
STOOD = {"schedules": None, "over": False, "left": False}


def plain(value):
    if torch.is_tensor(value):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if isinstance(value, (int, float, str, bool)) or value is None else None


def near(value):
    return float(f"{value:.12g}")


# The arguments of those that torch, or transformers, keeps in other forms: of a schedule and its optimizer's first group.
KEPT_OTHERWISE = {
    "MultiStepLR": lambda one, _: {"milestones": sorted(one.milestones.elements())},
    "LambdaLR": lambda one, _: (
        {"function": by.func.__name__, **by.keywords} if isinstance(by := one.lr_lambdas[0], functools.partial) else {}
    ),
    "CyclicLR": lambda one, _: {
        "base_lr": one.base_lrs[0],
        "max_lr": one.max_lrs[0],
        "step_size_up": (up := round(one.total_size * one.step_ratio)),
        "step_size_down": round(one.total_size) - up,
    },
    "OneCycleLR": lambda one, group: {
        "max_lr": group["max_lr"],
        "pct_start": near((one._schedule_phases[0]["end_step"] + 1) / one.total_steps),
        "anneal_strategy": one._anneal_func_type,
        "div_factor": near(group["max_lr"] / group["initial_lr"]),
        "final_div_factor": near(group["initial_lr"] / group["min_lr"]),
        "three_phase": len(one._schedule_phases) == 3,
    },
}


def schedule_of(scheduler):
    name, group = type(scheduler).__name__, scheduler.optimizer.param_groups[0]
    known = {key: plain(value) for key, value in vars(scheduler).items() if not key.startswith("_") and key != "optimizer"}
    known |= {key: group[key] for key in ("base_momentum", "max_momentum") if key in group}
    known |= KEPT_OTHERWISE.get(name, lambda *_: {})(scheduler, group)
    return {"type": name, **{key: value for key, value in known.items() if value is not None}}


def schedules():
    return STOOD["schedules"] or [schedule_of(one) for one in S.schedulers]


def stand():
    """At the last watched step."""
    STOOD["schedules"] = [*map(schedule_of, S.schedulers), *schedules_of_timm()]


def schedules_of_timm():
    """They are none of torch's, and set rates by hand."""
    base = getattr(sys.modules.get("timm.scheduler.scheduler"), "Scheduler", None)
    return [] if base is None else [{"type": type(one).__name__} for one in gc.get_objects() if base in type(one).__mro__]


def is_over():
    return STOOD["over"]


def leave():
    """Behind what follows the last watched step."""
    STOOD["over"] = True
    again()
    if torch.overrides._get_current_function_mode() is S.recorder:
        S.recorder.__exit__(None, None, None)
        STOOD["left"] = True


def time_steps():
    """At the end of each step from then on."""
    ENDS.append(time.perf_counter())
    if len(ENDS) > min(MOST, STEPS) or ENDS[-1] - ENDS[0] > SECONDS:
        from .written import finish

        finish()


def end_timing():
    """What is written next is watched again."""
    TIMES.extend(later - earlier for earlier, later in zip(ENDS, ENDS[1:]))
    hush()
    if STOOD["left"]:
        S.recorder.__enter__()
