"""Losses, metrics and transforms that are put into forward: torchmetrics, torchvision's operations and transforms, torchaudio's."""

import torch
import torch.nn as nn
import torchaudio.functional as ta
import torchmetrics.functional as tm
import torchvision.ops as ops
import torchvision.transforms.v2.functional as tv
from common import Loss

X, Y, IMAGE, WAVE = torch.rand(8, 6), torch.rand(8, 6), torch.rand(2, 3, 64, 64), torch.randn(2, 800)
BOXES = torch.tensor([[0.0, 0, 5, 5], [1, 1, 6, 7], [2, 0, 9, 4]])


def judged(judge, *given):
    """What is judged comes of a network."""
    return Loss(nn.Identity(), lambda f, x, *more: judge(f(x), *more)), given


REGRESSION = (
    "mean_squared_error mean_absolute_error mean_absolute_percentage_error symmetric_mean_absolute_percentage_error r2_score explained_variance "
    "pearson_corrcoef concordance_corrcoef cosine_similarity kl_divergence log_cosh_error mean_squared_log_error minkowski_distance "
    "relative_squared_error tweedie_deviance_score weighted_mean_absolute_percentage_error spearman_corrcoef kendall_rank_corrcoef "
    "normalized_root_mean_squared_error pairwise_cosine_similarity pairwise_euclidean_distance pairwise_manhattan_distance"
).split()
PICTURES = (
    "structural_similarity_index_measure multiscale_structural_similarity_index_measure peak_signal_noise_ratio universal_image_quality_index "
    "total_variation spectral_angle_mapper relative_average_spectral_error spectral_distortion_index error_relative_global_dimensionless_synthesis "
    "image_gradients visual_information_fidelity spatial_correlation_coefficient"
).split()
SOUNDS = "scale_invariant_signal_distortion_ratio scale_invariant_signal_noise_ratio signal_noise_ratio signal_distortion_ratio".split()
TRANSFORMS = {
    "autocontrast": (),
    "equalize": (),
    "invert": (),
    "solarize": (0.5,),
    "posterize": (3,),
    "gaussian_blur": ([3, 3],),
    "rotate": (30.0,),
    "adjust_brightness": (0.5,),
    "adjust_contrast": (0.5,),
    "adjust_hue": (0.1,),
    "adjust_saturation": (0.5,),
    "adjust_gamma": (0.5,),
    "adjust_sharpness": (0.5,),
    "resize": ([32, 32],),
    "center_crop": ([32, 32],),
    "five_crop": ([32, 32],),
    "horizontal_flip": (),
    "vertical_flip": (),
    "normalize": ([0.5] * 3, [0.5] * 3),
    "rgb_to_grayscale": (),
    "pad": ([2, 2],),
    "erase": (1, 1, 4, 4, torch.zeros(3, 4, 4)),
}
AUDIO = {
    "amplitude_to_DB": (10.0, 1e-10, 0.0),
    "mu_law_encoding": (256,),
    "lowpass_biquad": (8000, 1000.0),
    "deemphasis": (),
    "preemphasis": (),
    "dither": (),
    "detect_pitch_frequency": (8000,),
    "overdrive": (),
    "phaser": (8000,),
    "resample": (8000, 4000),
    "gain": (),
    "dcshift": (0.1,),
    "contrast": (),
    "vad": (8000,),
}


def models():
    for name in REGRESSION:
        flat = any(part in name for part in ("corr", "r2", "explained", "relative_squared"))
        given = (X[:, 0], Y[:, 0]) if flat else (X.softmax(1), Y.softmax(1)) if name.startswith("kl") else (X, Y)
        more = (3.0,) if name.startswith("minkowski") else ()
        yield name, lambda f=getattr(tm, name), given=given, more=more: judged(lambda x, y: f(x, y, *more), *given)
    for name in PICTURES:
        given = (IMAGE,) if name in ("total_variation", "image_gradients") else (IMAGE, IMAGE * 0.9)
        yield name, lambda f=getattr(tm, name, None) or getattr(tm.image, name), given=given: judged(f, *given)
    for name in SOUNDS:
        yield name, lambda f=getattr(tm, name, None) or getattr(tm.audio, name): judged(f, WAVE, WAVE * 0.9)
    for name in (
        "accuracy",
        "f1_score",
        "dice",
        "jaccard_index",
        "calibration_error",
        "hinge_loss",
        "auroc",
        "average_precision",
        "cohen_kappa",
        "confusion_matrix",
    ):
        if hasattr(tm, name):
            classes = torch.randint(0, 6, (8,))
            yield (
                name,
                lambda f=getattr(tm, name): judged(lambda x, y: f(x, y, task="multiclass", num_classes=6, validate_args=False), X, classes),
            )
    for name in (
        "generalized_box_iou_loss",
        "complete_box_iou_loss",
        "distance_box_iou_loss",
        "box_iou",
        "generalized_box_iou",
        "complete_box_iou",
    ):
        yield name, lambda f=getattr(ops, name): judged(f, BOXES, BOXES + 1)
    yield "sigmoid_focal_loss", lambda: judged(ops.sigmoid_focal_loss, X, Y.round())
    for kind, given in (
        (ops.SqueezeExcitation(3, 2), IMAGE),
        (ops.DropBlock2d(0.1, 3), IMAGE),
        (ops.StochasticDepth(0.2, "row"), IMAGE),
        (ops.Permute([0, 2, 3, 1]), IMAGE),
    ):
        yield type(kind).__name__, lambda kind=kind, given=given: (kind, given)
    for name, more in TRANSFORMS.items():
        yield name, lambda f=getattr(tv, name), more=more: judged(lambda x: f(x, *more), IMAGE)
    for name, more in AUDIO.items():
        yield name, lambda f=getattr(ta, name), more=more: judged(lambda x: f(x, *more), WAVE)
