"""transformers, with random weights and small configurations."""
import transformers as hf
from case import Case, image, labels, mask, numbers, whole

LIBRARY = "transformers"

WORDS, LENGTH = 99, 12
TEXT = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=32)
DECODER = dict(**TEXT, num_key_value_heads=2, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)
IMAGES = dict(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
              intermediate_size=64, num_labels=5)
ids = {"input_ids": whole(WORDS, LENGTH)}
masked = {**ids, "attention_mask": mask(LENGTH)}


def classifier(model, config, **more):
    """Texts to classes, by the logits."""
    return Case(lambda: model(config()), masked, "classes", whole(5), **more)


def judged(model, config, inputs=masked, target=whole(5), **more):
    """With labels and a loss of its own."""
    return Case(lambda: model(config()), inputs, "graph", target, labels="labels", **more)


def language(model, config):
    """The next token, by a loss of its own; labels are shifted inside."""
    return judged(model, config, ids, whole(WORDS, LENGTH))


def mixture(model, config):
    """transformers' own operation for experts has no form in PyTorch's."""
    def built():
        made = model(config())
        made.set_experts_implementation("batched_mm")
        return made
    return Case(built, ids, "graph", whole(WORDS, LENGTH), labels="labels")


def pictures(model, config, size=32, **more):
    return Case(lambda: model(config()), {"pixel_values": image(size)}, "classes", whole(5), **more)


def text(config, **more):
    return lambda: config(**{**TEXT, "num_labels": 5, **more})


def decoder(config, **more):
    return lambda: config(**{**DECODER, **more})


def seq2seq(model, config):
    return Case(lambda: model(config()), {**ids, "decoder_input_ids": whole(WORDS, LENGTH)}, "tokens",
                whole(WORDS, LENGTH))


small_t5 = lambda config: lambda: config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                         use_cache=False, decoder_start_token_id=0)
small_bart = lambda: hf.BartConfig(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2,
                                   encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                                   decoder_ffn_dim=64, max_position_embeddings=32, use_cache=False, pad_token_id=0,
                                   bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
waves = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16),
             conv_stride=(5, 4), conv_kernel=(10, 8), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
             classifier_proj_size=16, num_labels=5, mask_time_prob=0.0, mask_feature_prob=0.0, apply_spec_augment=False)

MODELS = {
    "bert": judged(hf.BertForSequenceClassification, text(hf.BertConfig)),
    "bert_masked_language": judged(hf.BertForMaskedLM, text(hf.BertConfig), masked, labels(WORDS, LENGTH)),
    "roberta_tokens": Case(lambda: hf.RobertaForTokenClassification(text(hf.RobertaConfig)()), masked, "tokens",
                           labels(5, LENGTH)),
    "distilbert": classifier(hf.DistilBertForSequenceClassification, lambda: hf.DistilBertConfig(
        vocab_size=WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=32, num_labels=5)),
    "albert": classifier(hf.AlbertForSequenceClassification, text(hf.AlbertConfig, embedding_size=16)),
    "electra": classifier(hf.ElectraForSequenceClassification, text(hf.ElectraConfig, embedding_size=16)),
    "deberta_v2": classifier(hf.DebertaV2ForSequenceClassification, text(
        hf.DebertaV2Config, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)),
    "mpnet": classifier(hf.MPNetForSequenceClassification, text(hf.MPNetConfig)),
    "modernbert": classifier(hf.ModernBertForSequenceClassification, text(
        hf.ModernBertConfig, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
        local_attention=8, attn_implementation="sdpa")),
    "fnet": Case(lambda: hf.FNetForSequenceClassification(text(
        hf.FNetConfig, tpu_short_seq_length=LENGTH)()), ids, "classes", whole(5)),
    "gpt2": language(hf.GPT2LMHeadModel, lambda: hf.GPT2Config(
        vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False)),
    "gpt_neox": language(hf.GPTNeoXForCausalLM, decoder(hf.GPTNeoXConfig)),
    "llama": language(hf.LlamaForCausalLM, decoder(hf.LlamaConfig)),
    "mistral": language(hf.MistralForCausalLM, decoder(hf.MistralConfig, sliding_window=6)),
    "qwen3": language(hf.Qwen3ForCausalLM, decoder(hf.Qwen3Config, head_dim=8)),
    "gemma2": language(hf.Gemma2ForCausalLM, decoder(hf.Gemma2Config, head_dim=8)),
    "phi": language(hf.PhiForCausalLM, decoder(hf.PhiConfig)),
    "opt": language(hf.OPTForCausalLM, lambda: hf.OPTConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
        word_embed_proj_dim=32, max_position_embeddings=32, use_cache=False)),
    "bloom": language(hf.BloomForCausalLM, lambda: hf.BloomConfig(
        vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4, use_cache=False)),
    "mixtral": mixture(hf.MixtralForCausalLM, decoder(hf.MixtralConfig, num_local_experts=3)),
    "qwen3_next": mixture(hf.Qwen3NextForCausalLM, decoder(
        hf.Qwen3NextConfig, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        shared_expert_intermediate_size=16, layer_types=["linear_attention", "full_attention"])),
    "mamba": language(hf.MambaForCausalLM, lambda: hf.MambaConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False)),
    "t5": seq2seq(hf.T5ForConditionalGeneration, small_t5(hf.T5Config)),
    "t5_labels": judged(hf.T5ForConditionalGeneration, small_t5(hf.T5Config),
                        {**ids, "decoder_input_ids": whole(WORDS, LENGTH)}, whole(WORDS, LENGTH)),
    "bart": seq2seq(hf.BartForConditionalGeneration, small_bart),
    "vit": pictures(hf.ViTForImageClassification, lambda: hf.ViTConfig(**IMAGES)),
    "dinov2": pictures(hf.Dinov2ForImageClassification, lambda: hf.Dinov2Config(**{**IMAGES, "drop_path_rate": 0.1})),
    "beit": pictures(hf.BeitForImageClassification, lambda: hf.BeitConfig(**IMAGES)),
    "swin": pictures(hf.SwinForImageClassification, lambda: hf.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4, num_labels=5)),
    "convnextv2": pictures(hf.ConvNextV2ForImageClassification, lambda: hf.ConvNextV2Config(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], drop_path_rate=0.1, num_labels=5), 64),
    "resnet_hf": pictures(hf.ResNetForImageClassification, lambda: hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic", num_labels=5)),
    "mobilevit": pictures(hf.MobileViTForImageClassification, lambda: hf.MobileViTConfig(
        image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], num_labels=5), 64),
    "segformer": Case(lambda: hf.SegformerForSemanticSegmentation(hf.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 4], depths=[1, 1, 1, 1], decoder_hidden_size=16,
        num_labels=4)), {"pixel_values": image(64)}, "maps", whole(4, 64, 64)),
    "vit_mae": Case(lambda: hf.ViTMAEForPreTraining(hf.ViTMAEConfig(
        **{k: v for k, v in IMAGES.items() if k != "num_labels"}, decoder_hidden_size=16, decoder_num_hidden_layers=1,
        decoder_num_attention_heads=2, decoder_intermediate_size=32)), {"pixel_values": image(32)}, "graph"),
    "wav2vec2": Case(lambda: hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**waves)),
                     {"input_values": numbers(800)}, "classes", whole(5)),
    "spectrogram_transformer": Case(lambda: hf.ASTForAudioClassification(hf.ASTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, patch_size=8, max_length=32,
        num_mel_bins=16, frequency_stride=8, time_stride=8, num_labels=5)), {"input_values": numbers(32, 16)},
        "classes", whole(5)),
    "whisper": Case(lambda: hf.WhisperForConditionalGeneration(hf.WhisperConfig(
        vocab_size=WORDS, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20,
        max_target_positions=16, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)),
        {"input_features": numbers(16, 40), "decoder_input_ids": whole(WORDS, LENGTH)}, "tokens",
        whole(WORDS, LENGTH)),
    "patchtst": Case(lambda: hf.PatchTSTForRegression(hf.PatchTSTConfig(
        num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_hidden_layers=2,
        num_attention_heads=4, ffn_dim=32, num_targets=2, prediction_length=1)), {"past_values": numbers(32, 3)},
        "numbers", numbers(2)),
    "patchtsmixer": Case(lambda: hf.PatchTSMixerForPrediction(hf.PatchTSMixerConfig(
        num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_layers=2,
        prediction_length=8)), {"past_values": numbers(32, 3)}, "numbers", numbers(8, 3)),
}
