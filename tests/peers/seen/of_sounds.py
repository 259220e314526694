"""Networks of sounds, and of noise that is taken away: nnAudio, torchaudio, conformer, asteroid, speechbrain, denoising-diffusion."""

import importlib

import torch
from common import Loss

SERIES = torch.randn(2, 16, 8)


def sounds():
    import nnAudio.features as f

    for name, more in (
        ("STFT", dict(n_fft=256)),
        ("MelSpectrogram", dict(n_fft=256, n_mels=16)),
        ("MFCC", dict(n_mfcc=8, n_fft=256, n_mels=16)),
        ("Gammatonegram", dict(n_fft=256, n_bins=16)),
        ("CQT1992v2", dict(n_bins=24, fmin=220)),
    ):
        yield f"nnAudio {name}", lambda name=name, more=more: (getattr(f, name)(sr=8000, hop_length=64, **more), torch.randn(2, 4000))
    import torchaudio.transforms as t

    for name, more in (
        ("Spectrogram", {}),
        ("MelSpectrogram", dict(n_mels=16)),
        ("MFCC", dict(n_mfcc=8, melkwargs=dict(n_mels=16))),
        ("AmplitudeToDB", {}),
        ("InverseSpectrogram", {}),
        ("GriffinLim", {}),
        ("TimeStretch", dict(fixed_rate=1.1)),
        ("Resample", dict(orig_freq=8000, new_freq=4000)),
        ("ComputeDeltas", {}),
        ("SpectralCentroid", dict(sample_rate=8000)),
        ("FrequencyMasking", dict(freq_mask_param=4)),
        ("SlidingWindowCmn", {}),
        ("Loudness", dict(sample_rate=8000)),
        ("PitchShift", dict(sample_rate=8000, n_steps=2)),
    ):
        wave = torch.randn(2, 4000)
        given = (
            torch.randn(2, 201, 21) + 0j
            if name in ("InverseSpectrogram", "TimeStretch")
            else torch.randn(2, 201, 21).abs()
            if name in ("GriffinLim", "AmplitudeToDB", "ComputeDeltas", "FrequencyMasking", "SlidingWindowCmn")
            else wave
        )
        yield f"torchaudio {name}", lambda name=name, more=more, given=given: (Loss(getattr(t, name)(**more), lambda f, x: f(x)), given)
    import torchaudio.models as m

    yield "emformer", lambda: (m.Emformer(16, 2, 32, 2, 4, right_context_length=1), (torch.randn(2, 9, 16), torch.tensor([8, 8])))
    yield "conformer", lambda: (m.Conformer(16, 4, 32, 2, 7), (torch.randn(2, 20, 16), torch.tensor([20, 20])))
    yield (
        "tacotron",
        lambda: (
            m.Tacotron2(n_symbol=20),
            (torch.randint(0, 20, (2, 9)), torch.tensor([9, 9]), torch.randn(2, 80, 12), torch.tensor([12, 12])),
        ),
    )
    yield "hdemucs", lambda: (m.hdemucs_low(sources=["a", "b"]), torch.randn(1, 2, 44100))
    from conformer import Conformer

    yield "conformer of its own", lambda: (Conformer(dim=16, depth=1, dim_head=8, heads=2), torch.randn(2, 20, 16))
    import asteroid.models as am

    for name, more in (
        ("ConvTasNet", dict(n_src=2, n_repeats=1, n_blocks=2, n_filters=16, bn_chan=8, hid_chan=16, skip_chan=8)),
        ("DPRNNTasNet", dict(n_src=2, n_repeats=1)),
        ("DPTNet", dict(n_src=2, n_repeats=1)),
        ("SuDORMRFNet", dict(n_src=2, num_blocks=1)),
        ("DCCRNet", dict(architecture="mini")),
    ):
        yield f"asteroid {name}", lambda name=name, more=more: (getattr(am, name)(**more), torch.randn(2, 1600))


def speech():

    kinds = {
        "ECAPA_TDNN.ECAPA_TDNN": (
            dict(
                input_size=16,
                channels=[16] * 5,
                kernel_sizes=[5, 3, 3, 3, 1],
                dilations=[1, 2, 3, 4, 1],
                attention_channels=8,
                lin_neurons=8,
            ),
            torch.randn(2, 30, 16),
        ),
        "Xvector.Xvector": (dict(in_channels=16), torch.randn(2, 30, 16)),
        "CRDNN.CRDNN": (
            dict(input_shape=[2, 30, 16], cnn_channels=(8, 8), rnn_neurons=8, rnn_layers=1, dnn_neurons=8, dnn_blocks=1),
            torch.randn(2, 30, 16),
        ),
        "segan_model.Generator": (dict(kernel_size=32, latent_vecs=2, z_prob=False), None),
    }
    for name, (more, x) in kinds.items():
        module, kind = name.split(".")
        if x is not None:
            yield (
                f"speechbrain {kind}",
                lambda module=module, kind=kind, more=more, x=x: (
                    getattr(importlib.import_module(f"speechbrain.lobes.models.{module}"), kind)(**more),
                    x,
                ),
            )
    from speechbrain.lobes.features import Fbank, MFCC

    yield "speechbrain Fbank", lambda: (Fbank(), torch.randn(2, 4000))
    yield "speechbrain MFCC", lambda: (MFCC(), torch.randn(2, 4000))
    from speechbrain.lobes.models.transformer.TransformerASR import TransformerASR

    for kind in ("transformer", "conformer", "branchformer"):
        yield (
            f"speechbrain {kind}",
            lambda kind=kind: (
                TransformerASR(
                    tgt_vocab=20,
                    input_size=16,
                    d_model=16,
                    nhead=2,
                    num_encoder_layers=1,
                    num_decoder_layers=1,
                    d_ffn=32,
                    encoder_module=kind,
                    attention_type="RelPosMHAXL" if kind == "conformer" else "regularMHA",
                ),
                (torch.randn(2, 30, 16), torch.randint(1, 20, (2, 5))),
            ),
        )


def diffusion():
    from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D

    yield "denoising Unet", lambda: (Unet(dim=8, dim_mults=(1, 2)), (torch.randn(2, 3, 16, 16), torch.tensor([1, 2])))
    yield "denoising Unet1D", lambda: (Unet1D(dim=8, dim_mults=(1, 2), channels=2), (torch.randn(2, 2, 16), torch.tensor([1, 2])))
    for objective in ("pred_noise", "pred_x0", "pred_v"):
        yield (
            f"GaussianDiffusion {objective}",
            lambda objective=objective: (
                GaussianDiffusion(Unet(dim=8, dim_mults=(1, 2)), image_size=16, timesteps=20, objective=objective),
                torch.rand(2, 3, 16, 16),
            ),
        )
    yield (
        "GaussianDiffusion1D",
        lambda: (GaussianDiffusion1D(Unet1D(dim=8, dim_mults=(1, 2), channels=2), seq_length=16, timesteps=20), torch.rand(2, 2, 16)),
    )


def models():
    for group in (sounds, speech, diffusion):
        yield from group()
