"""Nothing is drawn while batches are compared: dropout is off, and random functions give one number."""

import torch

from .seen import S, place


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


def silence(model):
    """Dropout would give other numbers here and there: it is off while batches are compared, and on again in what is exported."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            S.draws.append((module, module.p))
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float) and module.dropout > 0:
            S.draws.append((module, module.dropout))
            module.dropout = 0.0


def hush():
    """Those that draw are off again."""
    for module, _ in S.draws:
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        else:
            module.dropout = 0.0


def again():
    for module, share in S.draws:
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = share
        else:
            module.dropout = share


FUNCTIONAL = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


def watch_dropout():
    for name in FUNCTIONAL:

        def off(input, p=0.5, training=True, inplace=False, of=getattr(torch.nn.functional, name)):
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
