"""Networks of texts: x-transformers, linear-attention-transformer, perceiver, local and axial attention, mambapy."""

import torch

SERIES, IDS = torch.randn(2, 16, 8), torch.randint(0, 50, (2, 32))


def texts():
    import x_transformers as t

    of = dict(dim=32, depth=2, heads=2)
    kinds = [
        dict(),
        dict(rotary_pos_emb=True),
        dict(alibi_pos_bias=True),
        dict(rel_pos_bias=True),
        dict(dynamic_pos_bias=True),
        dict(use_rmsnorm=True, ff_glu=True, ff_swish=True),
        dict(attn_flash=True),
        dict(sandwich_norm=True),
        dict(attn_num_mem_kv=4),
        dict(shift_tokens=1),
        dict(attn_qk_norm=True),
        dict(attn_sparse_topk=4),
        dict(macaron=True),
        dict(use_scalenorm=True),
        dict(residual_attn=True),
        dict(ff_relu_squared=True),
        dict(attn_one_kv_head=True),
        dict(use_simple_rmsnorm=True),
        dict(attn_gate_values=True),
        dict(num_residual_streams=2),
        dict(polar_pos_emb=True),
        dict(attn_selective=True),
        dict(use_layerscale=True),
        dict(rotary_xpos=True),
        dict(attn_softclamp_logits=True),
        dict(attn_laser=True),
        dict(ff_no_bias=True, attn_hard=True),
    ]
    for more in kinds:
        yield (
            f"x-transformers {more}",
            lambda more=more: (t.TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=t.Decoder(**of, **more)), IDS),
        )
    yield (
        "x-transformers loss",
        lambda: (t.AutoregressiveWrapper(t.TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=t.Decoder(**of))), IDS),
    )
    yield (
        "x-transformers encoder",
        lambda: (
            t.TransformerWrapper(
                num_tokens=50,
                max_seq_len=32,
                emb_dropout=0.1,
                num_memory_tokens=2,
                attn_layers=t.Encoder(**of, attn_dropout=0.1, ff_dropout=0.1, layer_dropout=0.1),
            ),
            IDS,
        ),
    )
    yield (
        "x-transformers series",
        lambda: (t.ContinuousTransformerWrapper(dim_in=8, dim_out=4, max_seq_len=32, attn_layers=t.Encoder(**of)), SERIES),
    )
    yield (
        "x-transformers pairs",
        lambda: (
            t.XTransformer(
                dim=32,
                enc_num_tokens=50,
                enc_depth=1,
                enc_heads=2,
                enc_max_seq_len=32,
                dec_num_tokens=50,
                dec_depth=1,
                dec_heads=2,
                dec_max_seq_len=32,
            ),
            (IDS, IDS),
        ),
    )
    from linear_attention_transformer import LinearAttentionTransformerLM

    yield (
        "linear attention",
        lambda: (LinearAttentionTransformerLM(num_tokens=50, dim=32, heads=2, depth=1, max_seq_len=32, causal=True, blindspot_size=1), IDS),
    )
    from perceiver_pytorch import Perceiver, PerceiverIO

    yield (
        "perceiver",
        lambda: (
            Perceiver(
                input_channels=3,
                input_axis=2,
                num_freq_bands=4,
                max_freq=8.0,
                depth=1,
                num_latents=8,
                latent_dim=16,
                num_classes=5,
                latent_heads=2,
            ),
            torch.randn(2, 16, 16, 3),
        ),
    )
    yield (
        "perceiver io",
        lambda: (
            PerceiverIO(dim=8, queries_dim=8, logits_dim=5, depth=1, num_latents=8, latent_dim=16, latent_heads=2),
            (SERIES, None, torch.randn(4, 8)),
        ),
    )
    from local_attention import LocalTransformer

    yield (
        "local attention",
        lambda: (LocalTransformer(num_tokens=50, dim=32, depth=1, max_seq_len=32, local_attn_window_size=8, heads=2), IDS),
    )
    from axial_attention import AxialAttention

    yield "axial attention", lambda: (AxialAttention(dim=8, dim_index=1, heads=2, num_dimensions=2), torch.randn(2, 8, 8, 8))
    from mambapy.mamba import Mamba, MambaConfig

    for scan in (True, False):
        yield f"mamba {scan}", lambda scan=scan: (Mamba(MambaConfig(d_model=8, n_layers=1, d_state=4, pscan=scan)), SERIES)


def models():
    for group in (texts,):
        yield from group()
