"""diffusers: what is denoised, and what latents are made by."""
import diffusers as d
from case import Case, image, numbers, whole
from diffusers.models.unets.uvit_2d import UVit2DModel

LIBRARY = "diffusers"

blocks = dict(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4)
noise = lambda *shape: {"sample": numbers(*shape), "timestep": whole(1000)}
latents = lambda channels=4: {"hidden_states": numbers(channels, 8, 8), "timestep": whole(1000)}

MODELS = {
    "unet_2d": Case(lambda: d.UNet2DModel(
        sample_size=16, in_channels=1, out_channels=1, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4, **blocks),
        noise(1, 16, 16), "numbers", numbers(1, 16, 16)),
    "unet_2d_condition": Case(lambda: d.UNet2DConditionModel(
        sample_size=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=16, attention_head_dim=4, **blocks),
        {**noise(4, 8, 8), "encoder_hidden_states": numbers(6, 16)}, "numbers", numbers(4, 8, 8)),
    "unet_1d": Case(lambda: d.UNet1DModel(
        sample_size=32, in_channels=2, out_channels=2, extra_in_channels=64, down_block_types=("DownBlock1DNoSkip", "DownBlock1D"),
        up_block_types=("UpBlock1D", "UpBlock1DNoSkip"), block_out_channels=(32, 64), time_embedding_type="fourier",
        mid_block_type="UNetMidBlock1D"), noise(2, 32), "numbers", numbers(2, 32)),
    "autoencoder_kl": Case(lambda: d.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=2,
        sample_size=16, **blocks), {"sample": image(16)}, "numbers", image(16)),
    "autoencoder_tiny": Case(lambda: d.AutoencoderTiny(
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1)), {"sample": image(16)}, "numbers", image(16)),
    "vq_model": Case(lambda: d.VQModel(
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=2,
        num_vq_embeddings=16, sample_size=16, **blocks), {"sample": image(16)}, "numbers", image(16)),
    "dit": Case(lambda: d.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, patch_size=2,
        norm_num_groups=4, num_embeds_ada_norm=1000), {**latents(), "class_labels": whole(1000)}, "numbers", numbers(4, 8, 8)),
    "pixart": Case(lambda: d.PixArtTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=2, sample_size=8, patch_size=2,
        norm_num_groups=4, cross_attention_dim=16, caption_channels=12, use_additional_conditions=False),
        {**latents(), "encoder_hidden_states": numbers(5, 12)}, "numbers", numbers(4, 8, 8)),
    "stable_diffusion_3": Case(lambda: d.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=16, caption_projection_dim=16, pooled_projection_dim=12, out_channels=4, pos_embed_max_size=8),
        {**latents(), "encoder_hidden_states": numbers(5, 16), "pooled_projections": numbers(12)}, "numbers",
        numbers(4, 8, 8)),
    "uvit": Case(lambda: UVit2DModel(
        hidden_size=16, cond_embed_dim=12, micro_cond_encode_dim=8, micro_cond_embed_dim=40, encoder_hidden_size=14,
        vocab_size=30, codebook_size=20, in_channels=16, block_out_channels=16, num_res_blocks=1, block_num_heads=2,
        num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, sample_size=4),
        {"input_ids": whole(20, 4, 4), "encoder_hidden_states": numbers(5, 14), "pooled_text_emb": numbers(12),
         "micro_conds": numbers(5)}, "numbers", numbers(20, 4, 4)),
}
