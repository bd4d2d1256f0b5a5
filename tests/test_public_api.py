"""The public names of each floor, frozen: whoever adds, renames or removes one does it here too."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import course_lib

PUBLIC = {
    "shapes": """
        Boxes Context Edges Image Keys Lengths Logits Mask Memory Nodes Queries Scores Sequence States Tokens Values
        Weights
    """,
    "primitives": """
        GRU LSTM LearnedPositions Overlap RNN StepGradients area batch_norm bptt_step carousel_gradient
        causal_mask clip_gradients dirichlet_energy elu_feature_map embed_patches encode favor_features
        fused_gru fused_lstm gaussian_projection gcn_weights giou gru gru_step hoisted_rnn interpolate_positions
        iou layer_norm local_windows lstm lstm_step orthogonal_projection orthogonalised overlap padding_mask
        patch_grid patchify propagate require_edges rnn rnn_step sinusoidal_points sinusoidal_positions
        sinusoids to_centres to_corners trigonometric_features unpatchify window_mask with_self_loops
    """,
    "attention": """
        AdditiveAttention Arrows Attended AttentionLayer2d CachedStep CoOccurrent ConcatAttention
        DynamicGraphAttention GeneralAttention GraphAttention GraphMechanism HeadStatistics LinearAttention
        LocalAttention Mechanism MultiHead NonLocal NonLocalBlock NonLocalConcatenation PerformerAttention Pool
        additive_scores associative_dot_product attend attend_edges attention_over_image average_heads
        cached_step causal_attention causal_linear_attention causal_performer_attention chunked_linear_attention
        co_occurrent_features concat_scores cross_attention csr_attend_edges dense_attend_edges dot_attention
        dot_scores dynamic_edge_scores edge_softmax fused_causal_attention fused_dot_attention
        fused_embedded_gaussian fused_scaled_dot_product_attention gat_edge_scores gat_scores general_scores
        head_statistics inplace_linear_attention_step kernel_attention linear_attention linear_attention_step
        local_attention mean_pool merge_heads multi_head_attention multi_head_graph_attention non_local_block
        non_local_concatenation non_local_dot_product non_local_embedded_gaussian non_local_gaussian
        performer_attention pool recurrent_linear_attention relative_logits rollout scaled_dot_product_attention
        sliced_local_attention split_heads strongest_arrows tiled_local_attention uniform_graph_attention
    """,
    "blocks": """
        Block ContextOf ConvNet Cost CrossAttention DecoderBlock FeedForward Kernels Layer Residual
        SelfAttention Sizes Stack Sublayer TokenMixing channel_mixing channel_mixing_by_convolution closing_norm
        convolution convolution_cost counted_cost decoder_block decoder_stack draw_weights encoder_block
        encoder_stack feed_forward lean_token_mixing local_attention_cost mixer_block post_norm pre_norm
        pre_norm_encoder_block reordered_token_mixing token_mixing token_mixing_by_convolution
        token_mixing_kernels
    """,
    "objectives": """
        BoxWeights Masked Matching Segmented SentencePairs SetLoss average_precision byol_loss corrupt deep_set_loss
        distillation_loss find_hits gathered_nt_xent hard_attention_loss hard_distillation_loss lean_nt_xent
        mask_tokens match match_greedily match_in_order matching_cost mean_average_precision mlm_loss
        next_token_loss nsp_pairs nt_xent previous_token_loss segment_input set_loss teacher_forced_loss unit
    """,
    "models": """
        AdaptiveSteps Asked BERT BERT_BASE BERT_LARGE BYOL BahdanauDecoder Beam Bootstrapped BothLanguageModels
        Cache CachedGPT Captioned Checkpoint DETR Decoded DeiT Detected Document ELMo Encoded Encoder Extension
        GAT GATLayer GCN GPT GPT_1 GPT_2 GPT_3 Hierarchical LearnedQueries LinearMemory LinearTransformer
        LuongDecoder MIXER_BASE MIXER_HUGE MIXER_LARGE MIXER_SMALL MaskedWordHead Mixer MixerSizes NGram
        ObjectBlock PatchEncoder PictureMean PlacedSelfAttention PlainDecoder PointQueries Pondered Pretraining
        PretrainingBERT Probe Projected Said ScalarMix Segmenter SentenceHead SeparateSteps Seq2Seq SharedSteps
        ShowAndTell ShowAttendAndTell SimCLR Span SpanHead Spoken Stepped TRANSFORMER_BASE TRANSFORMER_BIG
        TagHead Transformer TwoAnswers Universal VIT_BASE VIT_HUGE VIT_LARGE ViT Writing adaptive_step bahdanau_steps
        beam_search bert_parameters best_span block_parameters both_ways cached_generate caption_step
        classification_head compose_document doubly_stochastic_penalty ema_update ema_update_ extend_beam
        few_shot_prompt fine_tuned_head fused_both_ways generate generate_recurrently gpt_parameters greedy
        halting_distribution hoisted_bahdanau_steps linear_probe mix_states mixer_parameters
        next_word_probabilities places_of ponder_cost read_checkpoint repeat_block rows_of sample scalar_mix
        shared_encoder soft_attention spectrum stacked_both_ways step_encoding top_k top_p training_operations
        transformer_parameters vit_parameters xlnet_parameters zero_head
    """,
    "datasets": """
        ALONE BEGIN END FORMATS LOCALES LUMA PADDING PAPER PHOTOGRAPHS TWIN UNKNOWN WALL Augmentation
        BytePairs Captions Digits DisplayName Films Graph LabelledPixels Lookup Pair Pictures Recall Reversal Scenes
        Splits Sums Text Unreachable Vocabulary Walks WrongChecksum cache_folder captioned_digits cifar10 clutter colour_matrix
        cora dates digit_scenes digits display_names docstrings download few_of_each ink_edges joined karate_club
        language_reference les_miserables lookup marked_neighbour marked_sentences matching_neighbour mnist moving_digits
        multi30k number_words pad photographs recall recolour resize reversal same_or_different
        secret_orders see_also spelled split sums twins walks warp word_pieces
    """,
    "training": "Step batches train",
    "teaching": "ClaimFailed at_scale boxed claim clouds device explore ledger network peak_memory plots progress record show "
    "weight_maps",
    "exercises": "Exercise Finding Property UnknownExercise Verdict check exercise exercises verdict",
}

each_room = pytest.mark.parametrize("room", PUBLIC)


def names_of(room: str) -> list[str]:
    """What a room gives away: its `__all__`, or what a single file defines itself."""
    module = import_module(f"course_lib.{room}")
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return getattr(module, "__all__", sorted(name for name in own if not name.startswith("_")))


def in_order(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions, as ruff's RUF022 has it."""
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name


@each_room
def test_the_public_names_are_those_written_here(room):
    assert set(names_of(room)) == set(PUBLIC[room].split())


@each_room
def test_the_list_of_public_names_is_sorted(room):
    assert names_of(room) == sorted(names_of(room), key=in_order)


@each_room
def test_every_public_name_resolves_and_says_what_it_is(room):
    module = import_module(f"course_lib.{room}")
    assert module.__doc__
    for name in names_of(room):
        value = getattr(module, name)
        if isinstance(value, ModuleType) or (inspect.isclass(value) and value.__module__.startswith("course_lib")):
            assert vars(value).get("__doc__"), f"{room}.{name} has no docstring of its own"
        elif inspect.isfunction(value):
            assert value.__doc__, f"{room}.{name} has no docstring"


@each_room
def test_the_docstring_of_a_function_speaks_of_its_arguments(room):
    """It names each of them, or gives shapes; a twin of the same signature names the function that it equals."""
    module = import_module(f"course_lib.{room}")
    for name in names_of(room):
        function = getattr(module, name)
        if not inspect.isfunction(function):
            continue
        text = function.__doc__
        unnamed = [p for p in inspect.signature(function).parameters if not re.search(rf"\b{p}s?\b", text)]
        told = not unnamed or re.search(r"\([^)]*\b(?:T|B|batch)\b[^)]*\)|`\w+`|[Cc]ompute the same", text)
        assert told, f"{room}.{name} says nothing of {unnamed}"


def test_every_room_that_a_notebook_may_import_is_frozen():
    paths = Path(course_lib.__file__).parent.iterdir()
    rooms = {path.stem for path in paths if (path / "__init__.py").exists() or path.suffix == ".py"}
    assert rooms - {"__init__", "__main__", "publishing", "grading"} == set(PUBLIC)
