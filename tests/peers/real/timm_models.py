"""timm's image models: the smallest of their families, on images of 64x64."""
import timm
from case import Case, image, whole
from timm.models.mlp_mixer import MlpMixer

LIBRARY = "timm"


def of(name, size=64, batch=4, **more):
    return Case(lambda: timm.create_model(name, num_classes=5, **more), {"x": image(size)}, "classes", whole(5),
                batch=batch)


small = dict(img_size=64, embed_dim=48, depth=2, num_heads=3)

MODELS = {
    "resnet10t": of("resnet10t"),
    "nf_resnet26": of("nf_resnet26"),
    "efficientnetv2": of("tf_efficientnetv2_b0", drop_path_rate=0.1),
    "mobilenetv4": of("mobilenetv4_conv_small"),
    "mobilenetv3_timm": of("mobilenetv3_small_050"),
    "convnext_atto": of("convnext_atto", drop_path_rate=0.1),
    "vit_tiny": of("vit_tiny_patch16_224", **{**small, "patch_size": 8}, drop_path_rate=0.1),
    "deit3": of("deit3_small_patch16_224", **small),
    "eva02": of("eva02_tiny_patch14_224", **{**small, "img_size": 56}, size=56),
    "cait": of("cait_xxs24_224", **{**small, "num_heads": 4}),
    "xcit": of("xcit_nano_12_p16_224", **{**small, "num_heads": 4}),
    "swinv2": of("swinv2_cr_tiny_224", img_size=64, window_size=2, embed_dim=16, depths=(1, 1), num_heads=(2, 2)),
    "coatnet": of("coatnet_nano_rw_224", img_size=64),
    "maxvit": of("maxvit_rmlp_pico_rw_256", img_size=64),
    # Built by its class: the named ones fix how many blocks they have, and how wide.
    "mixer": Case(lambda: MlpMixer(num_classes=5, img_size=64, patch_size=16, embed_dim=48, num_blocks=2),
                  {"x": image(64)}, "classes", whole(5)),
    "regnety": of("regnety_002"),
    "ghostnet": of("ghostnet_050"),
    "edgenext": of("edgenext_xx_small"),
    "repvgg": of("repvgg_a0"),
    "levit": of("levit_128s", img_size=64),
}
