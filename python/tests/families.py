"""Small configurations of models of the library transformers, and inputs for them."""

import torch

SIZES = dict(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4)
GROUPED = dict(SIZES, num_key_value_heads=2)
TOKENS = dict(pad_token_id=None, bos_token_id=1, eos_token_id=2)
GPT = dict(vocab_size=64, n_embd=64, n_layer=1, n_head=4, n_positions=64)

SPANS = dict(relative_attention=True, max_relative_positions=-1, pos_att_type=["p2c", "c2p"])
CODED = dict(
    **dict(vocab_size=64, d_model=64, encoder_layers=1, decoder_layers=1, max_position_embeddings=64),
    **dict(encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128),
)
MODERN = dict(SIZES, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
TEXT = dict(SIZES, max_position_embeddings=32, eos_token_id=2, bos_token_id=1, pad_token_id=0)
IMAGE = dict(
    hidden_size=64, num_attention_heads=4, num_hidden_layers=1, intermediate_size=96, image_size=32, patch_size=8
)
WHISPER = {n: v for n, v in CODED.items() if n != "max_position_embeddings"}
WHISPER |= dict(max_target_positions=64, **{**TOKENS, "pad_token_id": 0}, decoder_start_token_id=1)

MULTIPLIED = dict(embedding_multiplier=2.0, residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=3.0)
ALTERNATING = dict(GROUPED, num_hidden_layers=2, sliding_window=8)
LATENTS = dict(num_latents=8, d_latents=64, d_model=64, num_blocks=1, num_self_attends_per_block=1, vocab_size=64)
SEEN = dict(
    attention_probs_dropout_prob=0.0,
    num_self_attention_heads=4,
    num_cross_attention_heads=4,
    qk_channels=64,
    v_channels=64,
)
STATES = dict(state_size=16, num_heads=8, head_dim=16, n_groups=2, chunk_size=16)
WINDOWS = dict(image_size=32, patch_size=4, embed_dim=32, window_size=4, drop_path_rate=0.0, num_labels=3)

#: (model, configuration, its options, the kind of its inputs), with strict=True
WHOLE = {
    "granite": ("GraniteForCausalLM", "GraniteConfig", dict(GROUPED, **MULTIPLIED), "tokens"),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", dict(GROUPED, **TOKENS, no_rope_layers=[0]), "tokens"),
    "nemotron": ("NemotronForCausalLM", "NemotronConfig", dict(GROUPED, head_dim=16), "tokens"),
    "olmo3": ("Olmo3ForCausalLM", "Olmo3Config", ALTERNATING, "tokens"),
    "glm4": ("Glm4ForCausalLM", "Glm4Config", dict(GROUPED, head_dim=16, pad_token_id=None), "tokens"),
    "exaone4": (
        "Exaone4ForCausalLM",
        "Exaone4Config",
        dict(ALTERNATING, **TOKENS, layer_types=["sliding_attention", "full_attention"]),
        "tokens",
    ),
    "persimmon": ("PersimmonForCausalLM", "PersimmonConfig", SIZES, "tokens"),
    "gpt-bigcode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", dict(GPT, multi_query=True), "tokens"),
    "mamba2": (
        "Mamba2ForCausalLM",
        "Mamba2Config",
        dict(vocab_size=64, hidden_size=64, num_hidden_layers=1, **STATES, **TOKENS),
        "tokens",
    ),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", dict(SIZES, embedding_size=32), "padded"),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", dict(SIZES, num_hidden_layers=2, embedding_size=32), "padded"),
    "distilbert": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        dict(vocab_size=64, dim=64, hidden_dim=128, n_layers=1, n_heads=4),
        "padded",
    ),
    "nomic-bert": ("NomicBertForMaskedLM", "NomicBertConfig", dict(SIZES, pad_token_id=0), "padded"),
    "perceiver": (
        "PerceiverForMaskedLM",
        "PerceiverConfig",
        dict(LATENTS, **SEEN, max_position_embeddings=32),
        "tokens",
    ),
    "beit": (
        "BeitForImageClassification",
        "BeitConfig",
        dict(IMAGE, use_relative_position_bias=True, use_mask_token=False, drop_path_rate=0.0, num_labels=3),
        "images",
    ),
    "swin": ("SwinForImageClassification", "SwinConfig", dict(WINDOWS, depths=[2], num_heads=[2]), "images"),
    "ernie4.5": ("Ernie4_5ForCausalLM", "Ernie4_5Config", dict(GROUPED, head_dim=16), "tokens"),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", dict(GROUPED, head_dim=16, sliding_window=8), "tokens"),
    "falcon-alibi": (
        "FalconForCausalLM",
        "FalconConfig",
        dict(
            vocab_size=64, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, ffn_hidden_size=128, alibi=True
        ),
        "tokens",
    ),
    "gpt2-dropout": ("GPT2LMHeadModel", "GPT2Config", GPT, "tokens"),
    "roberta-dropout": ("RobertaForMaskedLM", "RobertaConfig", SIZES, "padded"),
    "deberta": ("DebertaForMaskedLM", "DebertaConfig", dict(SIZES, **SPANS, pad_token_id=0), "padded"),
    "deberta-v3": (
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        dict(SIZES, **SPANS, pad_token_id=0, share_att_key=True, position_buckets=16, norm_rel_ebd="layer_norm"),
        "padded",
    ),
    "modernbert": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        dict(MODERN, num_hidden_layers=2, global_attn_every_n_layers=2, local_attention=8),
        "padded",
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        dict(vocab_size=64, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4, decoder_start_token_id=0),
        "pairs",
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", CODED, "padded pairs"),
    "marian": (
        "MarianMTModel",
        "MarianConfig",
        dict(CODED, pad_token_id=63, decoder_start_token_id=63),
        "padded pairs",
    ),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", CODED, "padded pairs"),
    "whisper-decoder": ("WhisperForCausalLM", "WhisperConfig", WHISPER, "states"),
    "vit": ("ViTForImageClassification", "ViTConfig", dict(IMAGE, num_labels=3), "images"),
    "clip": ("CLIPModel", "CLIPConfig", dict(text_config=TEXT, vision_config=IMAGE, projection_dim=32), "both"),
    "siglip": ("SiglipModel", "SiglipConfig", dict(text_config=TEXT, vision_config=IMAGE), "both"),
}


def inputs_of(kind):
    """Arguments of a call. kind: "tokens", "pairs" of sequences, either also "padded", "states", "images" or "both"."""
    ids = torch.randint(3, 62, (2, 32))
    labels = ids.clone()
    labels[:, :5] = -100
    if kind == "images":
        return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 2])}
    if kind == "both":
        ids[:, -1] = 2
        return {"input_ids": ids, "pixel_values": torch.randn(2, 3, 32, 32), "return_loss": True}
    inputs = {"input_ids": ids, "labels": labels}
    if "pairs" in kind:
        inputs["labels"] = torch.randint(3, 62, (2, 24))
    if "padded" in kind:
        inputs["attention_mask"] = (torch.arange(32) < torch.tensor([[32], [20]])).long()
        # What te computes for padding is not what PyTorch does.
        inputs["labels"][1, 20:] = -100
    if kind == "states":
        inputs["encoder_outputs"] = torch.randn(2, 16, 64)
    return inputs


SMALL = dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=1, intermediate_size=96)
WORDS = dict(SMALL, vocab_size=64, num_labels=3, pad_token_id=0)
SPEECH = dict(
    **dict(conv_dim=(32, 32), conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2, layerdrop=0.0),
    **dict(num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_prob=0.0, classifier_proj_size=32),
    **dict(hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, feat_proj_dropout=0.0),
)
ROTATED = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}
SEEING = dict(
    text_config=dict(
        **dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4),
        **dict(num_key_value_heads=2, rope_parameters=ROTATED),
    ),
    vision_config=dict(
        **dict(depth=1, hidden_size=64, intermediate_size=96, num_heads=4, in_channels=3, patch_size=4),
        **dict(spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=64, window_size=16),
        fullatt_block_indexes=[0],
    ),
    **dict(image_token_id=60, video_token_id=61, vision_start_token_id=62, vision_end_token_id=63),
)

#: (model, configuration, its options, whether it is one graph, the number of GEMMs of its forward with a weight), for
#: batches of odd sizes. Convolutions that overlap stay in PyTorch.
ODD = {
    "dinov2": (
        "Dinov2ForImageClassification",
        "Dinov2Config",
        dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=1, image_size=32, patch_size=8, num_labels=3),
        True,
        8,
    ),
    "bert-classifier": (
        "BertForSequenceClassification",
        "BertConfig",
        dict(WORDS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        True,
        8,
    ),
    "llama-classifier": (
        "LlamaForSequenceClassification",
        "LlamaConfig",
        dict(WORDS, num_key_value_heads=2, use_cache=False),
        True,
        8,
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        dict(WHISPER, num_mel_bins=16, max_source_positions=39, dropout=0.0),
        False,
        17,
    ),
    "wav2vec2": ("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", dict(WORDS, **SPEECH), False, 9),
    "qwen2.5-vl": ("Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLConfig", SEEING, False, 17),
}


def odd_inputs_of(family):
    """Arguments of a call with 3 or 5 rows, or a picture of 15 tokens."""
    labels = torch.tensor([0, 2, 1, 1, 0])
    if family == "dinov2":
        return {"pixel_values": torch.randn(5, 3, 32, 32), "labels": labels}
    if family.endswith("classifier"):
        used = (torch.arange(13) < torch.tensor([[13], [5], [7], [9], [2]])).long()
        return {"input_ids": torch.randint(3, 60, (5, 13)) * used, "attention_mask": used, "labels": labels}
    if family == "whisper":
        return {"input_features": torch.randn(3, 16, 78), "labels": torch.randint(3, 60, (3, 11))}
    if family == "wav2vec2":
        return {"input_values": torch.randn(3, 795), "labels": labels[:3]}
    words, picture = torch.randint(3, 60, (1, 7)), torch.tensor([[62, *[60] * 15, 63]])
    ids = torch.cat([words[:, :2], picture, words[:, 2:]], 1)
    return {
        "input_ids": ids,
        "labels": ids.where(ids < 60, -100),
        "pixel_values": torch.randn(60, 3 * 2 * 4 * 4),
        "image_grid_thw": torch.tensor([[1, 6, 10]]),
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == 60).int(),
        "use_cache": False,
    }
