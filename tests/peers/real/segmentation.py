"""segmentation-models-pytorch: classes of pixels."""
import segmentation_models_pytorch as smp
from case import Case, image, whole

LIBRARY = "segmentation-models-pytorch"


def of(decoder, encoder="resnet18", size=64, **more):
    return Case(lambda: getattr(smp, decoder)(encoder, encoder_weights=None, classes=4, **more), {"x": image(size)},
                "maps", whole(4, size, size))


MODELS = {
    "smp_unet": of("Unet", decoder_channels=(32, 16, 16, 8, 8)),
    "smp_unet_attention": of("Unet", "mobilenet_v2", decoder_channels=(32, 16, 16, 16, 16), decoder_attention_type="scse"),
    "smp_unet_plus_plus": of("UnetPlusPlus", decoder_channels=(32, 16, 16, 8, 8)),
    "smp_fpn": of("FPN", decoder_pyramid_channels=32, decoder_segmentation_channels=32),
    "smp_pspnet": of("PSPNet", psp_out_channels=32),
    "smp_linknet": of("Linknet", "timm-mobilenetv3_small_minimal_100"),
    "smp_manet": of("MAnet", decoder_channels=(32, 16, 16, 8, 8), decoder_pab_channels=16),
    "smp_pan": of("PAN", decoder_channels=16, size=128),
    "smp_deeplabv3_plus": of("DeepLabV3Plus", "efficientnet-b0", decoder_channels=16),
    "smp_segformer": of("Segformer", "mit_b0", decoder_segmentation_channels=16),
    "smp_upernet": of("UPerNet", decoder_channels=16),
}
