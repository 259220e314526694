"""Networks of images and volumes: monai, segmentation-models-pytorch, vit-pytorch, kornia, efficientnet_pytorch, open_clip, lpips, piq, nnU-Net's, ultralytics."""

import importlib

import torch

RGB, GREY, VOLUME = torch.randn(2, 3, 64, 64), torch.randn(2, 1, 64, 64), torch.randn(2, 1, 32, 32, 32)
vit = dict(num_classes=5, dim=32, depth=2, heads=2, mlp_dim=64)


def medical():
    import monai.networks.nets as n

    two = dict(spatial_dims=2, in_channels=1, out_channels=3)
    unet = dict(channels=(4, 8, 16), strides=(2, 2))
    for dims, x in ((2, GREY), (3, VOLUME)):
        of = {**two, "spatial_dims": dims}
        yield f"UNet {dims}", lambda of=of, x=x: (n.UNet(**of, **unet, num_res_units=2), x)
        yield f"BasicUNetPlusPlus {dims}", lambda of=of, x=x: (n.BasicUNetPlusPlus(**of, features=(4,) * 6), x)
        yield f"AttentionUnet {dims}", lambda of=of, x=x: (n.AttentionUnet(**of, **unet), x)
        yield (
            f"DynUNet {dims}",
            lambda of=of, x=x: (
                n.DynUNet(**of, kernel_size=[3] * 3, strides=[1, 2, 2], upsample_kernel_size=[2, 2], filters=[4, 8, 16]),
                x,
            ),
        )
        yield f"SegResNet {dims}", lambda of=of, x=x: (n.SegResNet(**of, init_filters=8), x)
        yield f"SegResNetDS {dims}", lambda of=of, x=x: (n.SegResNetDS(**of, init_filters=8), x)
        yield f"VNet {dims}", lambda of=of, x=x: (n.VNet(**of), x)
        yield (
            f"UNETR {dims}",
            lambda of=of, x=x: (
                n.UNETR(1, 3, x.shape[2:], feature_size=4, hidden_size=32, mlp_dim=64, num_heads=4, spatial_dims=x.ndim - 2),
                x,
            ),
        )
        yield (
            f"SwinUNETR {dims}",
            lambda of=of, x=x: (n.SwinUNETR(**of, feature_size=12), x.repeat(1, 1, *[64 // x.shape[-1]] * (x.ndim - 2))),
        )
        yield f"HighResNet {dims}", lambda of=of, x=x: (n.HighResNet(**of), x)
        yield f"MedNeXt {dims}", lambda of=of, x=x: (n.MedNeXt(**of, init_filters=4), x)
        yield f"DenseNet121 {dims}", lambda of=of, x=x: (n.DenseNet121(**of), x)
        yield f"SENet {dims}", lambda of=of, x=x: (n.SEResNet50(spatial_dims=of["spatial_dims"], in_channels=1, num_classes=3), x)
        yield (
            f"EfficientNetBN {dims}",
            lambda of=of, x=x: (n.EfficientNetBN("efficientnet-b0", pretrained=False, spatial_dims=of["spatial_dims"], in_channels=1), x),
        )
        yield (
            f"AutoencoderKL {dims}",
            lambda of=of, x=x: (
                n.AutoencoderKL(**of, num_res_blocks=(1, 1), channels=(8, 16), attention_levels=(False, True), norm_num_groups=4),
                x,
            ),
        )
        yield (
            f"VQVAE {dims}",
            lambda of=of, x=x: (
                n.VQVAE(
                    **of,
                    channels=(8, 16),
                    num_res_channels=(8, 16),
                    num_res_layers=1,
                    downsample_parameters=((2, 4, 1, 1),) * 2,
                    upsample_parameters=((2, 4, 1, 1, 0),) * 2,
                    num_embeddings=16,
                    embedding_dim=8,
                ),
                x,
            ),
        )
        yield (
            f"DiffusionModelUNet {dims}",
            lambda of=of, x=x: (
                n.DiffusionModelUNet(
                    **of, channels=(8, 16), attention_levels=(False, True), num_res_blocks=1, norm_num_groups=4, num_head_channels=4
                ),
                (x, torch.tensor([1, 2])),
            ),
        )
        yield (
            f"ViTAutoEnc {dims}",
            lambda of=of, x=x: (
                n.ViTAutoEnc(
                    1, x.shape[2:], [16] * (x.ndim - 2), hidden_size=32, mlp_dim=64, num_layers=2, num_heads=4, spatial_dims=x.ndim - 2
                ),
                x,
            ),
        )
        yield (
            f"ViT {dims}",
            lambda of=of, x=x: (
                n.ViT(
                    1,
                    x.shape[2:],
                    [16] * (x.ndim - 2),
                    hidden_size=32,
                    mlp_dim=64,
                    num_layers=2,
                    num_heads=4,
                    spatial_dims=x.ndim - 2,
                    classification=True,
                ),
                x,
            ),
        )
        yield f"PatchDiscriminator {dims}", lambda of=of, x=x: (n.PatchDiscriminator(of["spatial_dims"], 8, 1), x)
        yield (
            f"VoxelMorph {dims}",
            lambda of=of, x=x: (
                n.VoxelMorph(spatial_dims=of["spatial_dims"], unet_out_channels=4, channels=(4, 4, 4, 4, 4, 4), final_conv_channels=(4, 4)),
                (x, x),
            ),
        )
        yield f"LocalNet {dims}", lambda of=of, x=x: (n.LocalNet(of["spatial_dims"], 1, 4, (0, 1)), x)
        yield f"GlobalNet {dims}", lambda of=of, x=x: (n.GlobalNet(x.shape[2:], of["spatial_dims"], 1, 4, 2), x)
    yield "FlexibleUNet", lambda: (n.FlexibleUNet(1, 3, "efficientnet-b0", spatial_dims=2), GREY)
    yield "AHNet", lambda: (n.AHNet(psp_block_num=0, spatial_dims=2, out_channels=3, upsample_mode="bilinear"), torch.randn(2, 1, 64, 64))
    yield "HoVerNet", lambda: (n.HoVerNet(mode="fast", in_channels=3, out_classes=5), torch.randn(2, 3, 256, 256))
    yield (
        "DiNTS",
        lambda: (
            n.DiNTS(n.TopologyInstance(spatial_dims=2, device="cpu"), 1, 3, spatial_dims=2)
            if False
            else n.VarAutoEncoder(2, (1, 32, 32), 1, 2, (4, 8), (2, 2)),
            torch.randn(2, 1, 32, 32),
        ),
    )
    import monai.losses as losses

    y = torch.randint(0, 3, (2, 1, 64, 64))
    for name in (
        "DiceLoss",
        "DiceCELoss",
        "DiceFocalLoss",
        "FocalLoss",
        "TverskyLoss",
        "GeneralizedDiceLoss",
        "HausdorffDTLoss",
        "UnifiedFocalLoss",
        "AsymmetricUnifiedFocalLoss",
    ):
        yield (
            name,
            lambda name=name: (
                Judged(getattr(losses, name)(to_onehot_y=True, **({"softmax": True} if "Dice" in name or "Tversky" in name else {}))),
                (GREY, y),
            ),
        )
    for name in ("SSIMLoss", "LocalNormalizedCrossCorrelationLoss", "GlobalMutualInformationLoss", "BendingEnergyLoss", "JukeboxLoss"):
        yield (
            name,
            lambda name=name: (
                Judged(
                    getattr(losses, name)(spatial_dims=2)
                    if name in ("SSIMLoss", "LocalNormalizedCrossCorrelationLoss", "JukeboxLoss")
                    else getattr(losses, name)(),
                    1,
                ),
                (GREY, GREY) if name != "BendingEnergyLoss" else (GREY,),
            ),
        )


class Judged(torch.nn.Module):
    def __init__(self, loss, channels=3):
        super().__init__()
        self.net, self.loss = torch.nn.Conv2d(1, channels, 3, padding=1), loss

    def forward(self, x, *target):
        return self.loss(self.net(x), *target)


def segmentation():
    import segmentation_models_pytorch as smp

    for decoder in (
        "Unet",
        "UnetPlusPlus",
        "FPN",
        "PSPNet",
        "Linknet",
        "MAnet",
        "PAN",
        "DeepLabV3",
        "DeepLabV3Plus",
        "Segformer",
        "UPerNet",
        "DPT",
    ):
        yield (
            f"smp {decoder}",
            lambda decoder=decoder: (
                getattr(smp, decoder)("tu-vit_tiny_patch16_224" if decoder == "DPT" else "resnet18", encoder_weights=None, classes=4),
                torch.randn(2, 3, 224, 224),
            ),
        )
    for encoder in (
        "mobilenet_v2",
        "efficientnet-b0",
        "vgg11",
        "densenet121",
        "inceptionv4",
        "xception",
        "dpn68",
        "se_resnet50",
        "mit_b0",
        "mobileone_s0",
        "timm-regnetx_002",
    ):
        yield (
            f"smp {encoder}",
            lambda encoder=encoder: (
                smp.Unet(encoder, encoder_weights=None, classes=4, decoder_attention_type="scse"),
                torch.randn(2, 3, 224, 224),
            ),
        )
    for loss, more in (
        ("DiceLoss", ("multiclass",)),
        ("JaccardLoss", ("multiclass",)),
        ("FocalLoss", ("multiclass",)),
        ("LovaszLoss", ("multiclass",)),
        ("TverskyLoss", ("multiclass",)),
        ("SoftCrossEntropyLoss", ()),
        ("MCCLoss", ()),
    ):
        yield (
            f"smp {loss}",
            lambda loss=loss, more=more: (
                Judged(getattr(smp.losses, loss)(*more, **({"smooth_factor": 0.1} if loss.startswith("SoftC") else {}))),
                (GREY, torch.randint(0, 3, (2, 64, 64))),
            ),
        )


def vits():
    of = {
        "vit.ViT": dict(image_size=64, patch_size=16, **vit),
        "simple_vit.SimpleViT": dict(image_size=64, patch_size=16, **vit),
        "deepvit.DeepViT": dict(image_size=64, patch_size=16, **vit),
        "cait.CaiT": dict(image_size=64, patch_size=16, **vit, cls_depth=1),
        "parallel_vit.ViT": dict(image_size=64, patch_size=16, **vit),
        "vit_for_small_dataset.ViT": dict(image_size=64, patch_size=16, **vit),
        "vit_with_patch_merger.ViT": dict(image_size=64, patch_size=16, **vit),
        "simple_vit_with_fft.SimpleViT": dict(image_size=64, patch_size=16, freq_patch_size=16, **vit),
        "simple_vit_with_register_tokens.SimpleViT": dict(image_size=64, patch_size=16, **vit),
        "simple_vit_with_qk_norm.SimpleViT": dict(image_size=64, patch_size=16, **vit),
        "simple_vit_with_patch_dropout.SimpleViT": dict(image_size=64, patch_size=16, **vit),
        "normalized_vit.nViT": dict(image_size=64, patch_size=16, **vit),
        "simple_vit_with_value_residual.SimpleViT": dict(image_size=64, patch_size=16, **vit),
        "jumbo_vit.JumboViT": dict(image_size=64, patch_size=16, **vit, num_jumbo_cls=1, jumbo_cls_k=2, jumbo_ff_mult=2),
        "look_vit.LookViT": dict(dim=32, image_size=64, num_classes=5, depth=2, patch_size=16, heads=2),
        "t2t.T2TViT": dict(image_size=64, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=64),
        "cct.cct_7": dict(img_size=64, n_conv_layers=1, kernel_size=7, stride=2, padding=3, num_classes=5),
        "cross_vit.CrossViT": dict(image_size=64, num_classes=5, depth=2, sm_dim=32, sm_patch_size=8, lg_dim=32, lg_patch_size=32),
        "pit.PiT": dict(image_size=64, patch_size=14, num_classes=5, dim=32, depth=(1, 1), heads=2, mlp_dim=64),
        "levit.LeViT": dict(image_size=224, num_classes=5, dim=(16, 24, 32), depth=2, heads=(2, 2, 2), mlp_mult=2),
        "cvt.CvT": dict(num_classes=5),
        "twins_svt.TwinsSVT": dict(num_classes=5),
        "crossformer.CrossFormer": dict(num_classes=5, dim=(16, 16, 32, 32), depth=(1, 1, 1, 1)),
        "regionvit.RegionViT": dict(dim=(16, 16, 32, 32), depth=(1, 1, 1, 1), num_classes=5),
        "scalable_vit.ScalableViT": dict(
            num_classes=5,
            dim=16,
            heads=(2, 2, 2, 2),
            depth=(1, 1, 1, 1),
            ssa_dim_key=(8, 8, 8, 8),
            reduction_factor=(8, 4, 2, 1),
            window_size=(64, 32, None, None),
        ),
        "sep_vit.SepViT": dict(num_classes=5, dim=16, dim_head=8, heads=(1, 2, 2, 2), depth=(1, 1, 1, 1), window_size=7),
        "max_vit.MaxViT": dict(num_classes=5, dim=32, depth=(1, 1), dim_head=16, window_size=7),
        "nest.NesT": dict(image_size=224, patch_size=4, dim=16, heads=2, num_hierarchies=3, block_repeats=(1, 1, 1), num_classes=5),
        "mobile_vit.MobileViT": dict(
            image_size=(256, 256), dims=[16, 24, 32], channels=[16, 16, 24, 24, 32, 32, 40, 40, 48, 48, 64], num_classes=5
        ),
        "xcit.XCiT": dict(image_size=64, patch_size=16, num_classes=5, dim=32, depth=2, cls_depth=1, heads=2, mlp_dim=64),
        "local_vit.LocalViT": dict(image_size=64, patch_size=16, **vit),
        "learnable_memory_vit.ViT": dict(image_size=64, patch_size=16, **vit),
        "rvt.RvT": dict(image_size=64, patch_size=16, **vit),
        "ats_vit.ViT": dict(image_size=64, patch_size=16, max_tokens_per_depth=(8, 4), **vit),
        "vit_1d.ViT": dict(seq_len=64, patch_size=16, **vit),
        "vit_3d.ViT": dict(image_size=64, image_patch_size=16, frames=8, frame_patch_size=2, **vit),
        "vivit.ViT": dict(
            image_size=64,
            image_patch_size=16,
            frames=8,
            frame_patch_size=2,
            num_classes=5,
            dim=32,
            spatial_depth=1,
            temporal_depth=1,
            heads=2,
            mlp_dim=64,
        ),
        "es_vit.EsViTTransformer": dict(num_classes=5, dim=16, depth=(1, 1)),
        "simple_uvit.SimpleUViT": dict(image_size=64, patch_size=16, **vit),
        "simple_flash_attn_vit.SimpleViT": dict(image_size=64, patch_size=16, use_flash=True, **vit),
        "vit_5.ViT": dict(image_size=64, patch_size=16, **vit),
        "simple_vit_with_hyper_connections.SimpleViT": dict(image_size=64, patch_size=16, num_residual_streams=2, **vit),
    }
    for name, more in of.items():
        module, kind = name.split(".")
        size = (
            256
            if name.startswith("mobile")
            else 224
            if module in ("levit", "cvt", "twins_svt", "crossformer", "regionvit", "scalable_vit", "sep_vit", "max_vit", "nest", "es_vit")
            else 64
        )
        x = (
            torch.randn(2, 3, 64)
            if "1d" in name
            else torch.randn(2, 3, 8, 64, 64)
            if module in ("vit_3d", "vivit")
            else torch.randn(2, 3, size, size)
        )
        yield (
            name,
            lambda module=module, kind=kind, more=more, x=x: (getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)(**more), x),
        )
    from vit_pytorch.vit import ViT

    for module, kind, more in (("mae", "MAE", dict(masking_ratio=0.75, decoder_dim=32)), ("simmim", "SimMIM", dict(masking_ratio=0.5))):
        yield (
            kind,
            lambda module=module, kind=kind, more=more: (
                getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)(encoder=ViT(image_size=64, patch_size=16, **vit), **more),
                RGB,
            ),
        )


class Of(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f, self.net = f, torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return self.f(self.net(x).sigmoid())


def others():
    import kornia as k

    functions = {
        "sobel": k.filters.sobel,
        "gaussian": lambda x: k.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)),
        "canny": lambda x: k.filters.canny(x)[0],
        "median": lambda x: k.filters.median_blur(x, (3, 3)),
        "laplacian": lambda x: k.filters.laplacian(x, 3),
        "bilateral": lambda x: k.filters.bilateral_blur(x, (3, 3), 0.1, (1.0, 1.0)),
        "unsharp": lambda x: k.filters.unsharp_mask(x, (3, 3), (1.0, 1.0)),
        "rotate": lambda x: k.geometry.rotate(x, torch.full((x.shape[0],), 30.0)),
        "resize": lambda x: k.geometry.resize(x, (32, 32)),
        "pyramid": lambda x: k.geometry.pyrdown(x),
        "warp": lambda x: k.geometry.warp_affine(x, torch.eye(2, 3)[None].expand(x.shape[0], 2, 3), (32, 32)),
        "lab": k.color.rgb_to_lab,
        "hsv": k.color.rgb_to_hsv,
        "yuv": k.color.rgb_to_yuv,
        "grey": k.color.rgb_to_grayscale,
        "erosion": lambda x: k.morphology.erosion(x, torch.ones(3, 3)),
        "opening": lambda x: k.morphology.opening(x, torch.ones(3, 3)),
        "ssim": lambda x: k.losses.ssim_loss(x, x * 0.9, 5),
        "psnr": lambda x: k.losses.psnr_loss(x, x * 0.9, 1.0),
        "total_variation": k.losses.total_variation,
        "harris": lambda x: k.feature.harris_response(x),
        "equalize": lambda x: k.enhance.equalize_clahe(x),
        "spatial_softmax": lambda x: k.geometry.spatial_soft_argmax2d(x),
        "homography": lambda x: k.geometry.warp_perspective(x, torch.eye(3)[None].expand(x.shape[0], 3, 3), (32, 32)),
        "histogram": lambda x: k.enhance.image_histogram2d(x, 0.0, 1.0)[0],
    }
    for name, f in functions.items():
        yield f"kornia {name}", lambda f=f: (Of(f), RGB)
    from efficientnet_pytorch import EfficientNet

    yield "efficientnet_pytorch", lambda: (EfficientNet.from_name("efficientnet-b0", num_classes=5), torch.randn(2, 3, 224, 224))
    import open_clip

    for name in ("ViT-S-32", "RN50", "coca_ViT-B-32", "ViT-B-16-SigLIP", "convnext_base"):
        yield (
            f"open_clip {name}",
            lambda name=name: (
                open_clip.create_model(name),
                (torch.randn(2, 3, 224, 224), torch.randint(0, 99, (2, 64 if "SigLIP" in name else 76 if "coca" in name else 77))),
            ),
        )
    import lpips

    yield "lpips", lambda: (Pair(lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True)), RGB)
    import piq

    for name in (
        "SSIMLoss",
        "MultiScaleSSIMLoss",
        "VIFLoss",
        "GMSDLoss",
        "TVLoss",
        "FSIMLoss",
        "VSILoss",
        "HaarPSILoss",
        "MDSILoss",
        "SRSIMLoss",
        "DSSLoss",
    ):
        yield (
            f"piq {name}",
            lambda name=name: (
                Of(lambda x, loss=getattr(piq, name)(): loss(x, x * 0.9) if name != "TVLoss" else loss(x)),
                torch.randn(2, 3, 192, 192),
            ),
        )
    from dynamic_network_architectures.architectures.unet import PlainConvUNet, ResidualEncoderUNet

    for kind, key in ((PlainConvUNet, "n_conv_per_stage"), (ResidualEncoderUNet, "n_blocks_per_stage")):
        for dims, x in ((2, GREY), (3, VOLUME)):
            conv, norm = getattr(torch.nn, f"Conv{dims}d"), getattr(torch.nn, f"InstanceNorm{dims}d")
            yield (
                f"{kind.__name__} {dims}",
                lambda kind=kind, key=key, conv=conv, norm=norm, x=x: (
                    kind(
                        1,
                        3,
                        (4, 8, 16),
                        conv,
                        3,
                        (1, 2, 2),
                        **{key: (1, 1, 1)},
                        num_classes=3,
                        n_conv_per_stage_decoder=(1, 1),
                        conv_bias=True,
                        norm_op=norm,
                        norm_op_kwargs={"affine": True},
                        nonlin=torch.nn.LeakyReLU,
                        nonlin_kwargs={"inplace": True},
                        deep_supervision=True,
                    ),
                    x,
                ),
            )
    import ultralytics
    from ultralytics.nn.tasks import ClassificationModel, DetectionModel, SegmentationModel

    for kind, name in (
        (DetectionModel, "yolov8n.yaml"),
        (DetectionModel, "yolo11n.yaml"),
        (DetectionModel, "yolov5n.yaml"),
        (DetectionModel, "yolov10n.yaml"),
        (SegmentationModel, "yolov8n-seg.yaml"),
        (ClassificationModel, "yolov8n-cls.yaml"),
        (DetectionModel, "rtdetr-l.yaml"),
    ):
        yield f"ultralytics {name}", lambda kind=kind, name=name: (kind(name, verbose=False), torch.randn(2, 3, 128, 128))


class Pair(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.net = body, torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return self.body(self.net(x), x)


def models():
    for group in (others, vits, segmentation, medical):
        try:
            yield from group()
        except ImportError:
            continue
