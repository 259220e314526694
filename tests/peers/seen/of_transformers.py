"""transformers: every model whose configuration can be made small by the names that most have for their sizes."""

import torch
from transformers import AutoModel, CONFIG_MAPPING
from transformers.models.auto import modeling_auto as auto

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "head_dim": 8,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_embd": 32,
    "num_layers": 2,
    "num_heads": 4,
    "d_ff": 64,
    "d_kv": 8,
    "ffn_dim": 64,
    "emb_dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "dim": 32,
    "hidden_dim": 64,
    "embedding_size": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "state_size": 4,
    "moe_intermediate_size": 16,
    "num_experts_per_tok": 2,
    "image_size": 32,
    "patch_size": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "use_cache": False,
    "layer_types": None,
    "sliding_window": 8,
    "shared_expert_intermediate_size": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
    "n_group": 1,
    "topk_group": 1,
    "word_embed_proj_dim": 32,
    "encoder_hidden_dim": 32,
    "classifier_proj_size": 16,
}
LARGE = 60_000_000


def small(kind):
    config = CONFIG_MAPPING[kind]()
    for part in [config, *(getattr(config, name, None) for name in ("text_config", "vision_config", "audio_config"))]:
        if part is None:
            continue
        for name, value in SIZES.items():
            old = getattr(part, name, None)
            if (
                isinstance(old, int)
                and value is not None
                and not (isinstance(old, bool) != isinstance(value, bool))
                and (old > value or name.endswith("_id"))
            ):
                setattr(part, name, value)
        if isinstance(getattr(part, "layer_types", None), list):
            kinds = list(dict.fromkeys(part.layer_types))
            part.layer_types = (kinds * 2)[: max(2, len(kinds))]
            part.num_hidden_layers = len(part.layer_types)
    return config


def given(model, config):
    ids = torch.randint(3, 90, (2, 12))
    main = getattr(model, "main_input_name", "input_ids")
    if main == "pixel_values":
        size = getattr(getattr(config, "vision_config", config), "image_size", 64) or 64
        size = size if isinstance(size, int) else size[0]
        size = max(size, 32)
        inputs = {"pixel_values": torch.randn(2, getattr(config, "num_channels", 3) or 3, size, size)}
    elif main == "input_values":
        inputs = {"input_values": torch.randn(2, 4000)}
    elif main == "input_features":
        inputs = {"input_features": torch.randn(2, getattr(config, "num_mel_bins", 80), 2 * getattr(config, "max_source_positions", 100))}
    elif main == "past_values":
        length = getattr(config, "context_length", 32) or 32
        inputs = {"past_values": torch.randn(2, length, getattr(config, "num_input_channels", 1))}
    else:
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if config.is_encoder_decoder and main != "past_values":
        inputs["decoder_input_ids"] = ids
    return inputs


def of(kind, table):
    config = small(kind)
    found = table[type(config)] if table else None
    model = AutoModel.from_config(config) if found is None else (found[0] if isinstance(found, tuple) else found)(config)
    if sum(p.numel() for p in model.parameters()) > LARGE:
        raise ValueError("still too large")
    if hasattr(model, "set_experts_implementation"):
        try:
            model.set_experts_implementation("batched_mm")
        except Exception:
            pass
    return model.float(), (), given(model, config)


def models():
    for kind in CONFIG_MAPPING.keys():
        yield kind, lambda kind=kind: of(kind, None)
    for what in ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SEMANTIC_SEGMENTATION", "OBJECT_DETECTION", "DEPTH_ESTIMATION"):
        names = getattr(auto, f"MODEL_FOR_{what}_MAPPING")
        for kind in auto.__dict__[f"MODEL_FOR_{what}_MAPPING_NAMES"]:
            if kind in CONFIG_MAPPING:
                yield f"{kind}_{what.lower()}", lambda kind=kind, names=names: of(kind, names)
