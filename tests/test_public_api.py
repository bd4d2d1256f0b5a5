"""The public names of each package, frozen: a change of a name must be made here as well."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import course_lib

PUBLIC = {
    "course_lib.shapes": """
        Boxes Context Edges Image Keys Lengths Logits Mask Memory Nodes Queries Scores States TokenFeatures Tokens
        Values Weights
    """,
    "course_lib.primitives": """
        GRU LSTM RNN HaltingStep LearnedPositions Overlap StepGradients adaptive_step area batch_norm bptt_step
        carousel_gradient causal_mask clip_gradients dirichlet_energy elu_feature_map embed_patches encode
        favor_features fused_gru fused_lstm gaussian_projection gcn_weights giou gru gru_step halting_distribution
        hoisted_rnn interpolate_positions iou layer_norm local_windows lstm lstm_step mix_states orthogonal_projection
        orthogonalised overlap padding_mask patch_grid patchify ponder_cost propagate require_edges rnn rnn_step
        sinusoidal_points sinusoidal_positions sinusoids to_centres to_corners trigonometric_features unit unpatchify
        window_mask with_self_loops
    """,
    "course_lib.attention": """
        AdditiveAttention AnyMechanism Attended AttentionDropout AttentionLayer2d CachedStep CoOccurrent
        ConcatAttention ContextOnly DynamicGraphAttention FusedMechanism GeneralAttention GraphAttention
        GraphMechanism KeysValues LayerState LinearAttention LocalAttention LocalPredictive Mechanism MultiHead NonLocal
        NonLocalBlock NonLocalConcatenation PerformerAttention Pool RelativeAttention StepwiseMechanism additive_scores
        alignment_window
        associative_dot_product attend attend_edges attention_over_image average_heads cached_step causal_attention
        causal_linear_attention causal_performer_attention chunked_linear_attention co_occurrent_features
        concat_scores cross_attention csr_attend_edges dense_attend_edges dot_attention dot_scores dynamic_edge_scores
        edge_softmax fused_causal_attention fused_dot_attention fused_embedded_gaussian
        fused_scaled_dot_product_attention gat_edge_scores gat_scores general_scores inplace_linear_attention_step
        kernel_attention lean_linear_attention lean_performer_attention linear_attention linear_attention_step
        local_attention local_m_attention local_p_attention
        mean_pool merge_heads multi_head_attention multi_head_graph_attention non_local_block non_local_concatenation
        non_local_dot_product non_local_embedded_gaussian non_local_gaussian performer_attention pool
        predicted_positions recurrent_linear_attention relative_attention relative_logits relative_shift
        require_weights scaled_dot_product_attention shifted_relative_attention sliced_local_attention split_heads
        tiled_local_attention uniform_graph_attention without_attention_dropout
    """,
    "course_lib.blocks": """
        Activation AttentionWeights Block ContextOf ConvNet CrossAttention DecoderBlock DecoderBlockState FeedForward
        FeedForwardWeights
        LayerFactory MixerSizes NormWeights Residual SelfAttention
        Sizes Stack StepwiseMixer Sublayer TokenMixing TokenMixingKernels channel_mixing channel_mixing_by_convolution
        closing_norm
        convolution decoder_block decoder_stack draw_weights encoder_block encoder_stack feed_forward
        lean_token_mixing mixer_block post_norm pre_norm pre_norm_encoder_block reordered_token_mixing token_mixing
        token_mixing_by_convolution token_mixing_kernels zero_head
    """,
    "course_lib.models": """
        BERT BYOL DETR GAT GCN GPT AdaptiveSteps AttentionMaps AttentiveState BahdanauDecoder BidirectionalLogits Bootstrapped
        CaptionStep Captioned DETRWithMasks Decoded DecoderState DeiT DeiTLogits Detected DetectedMasks ELMo Encoded
        Encoder GATLayer GPTState
        GlobalAverage Hierarchical KneserNey LearnedQueries LinearMemory LinearTransformer LocalLuongDecoder
        LuongDecoder MaskHead MaskedWordHead Mixer NGram ObjectBlock ObjectFeatures ObjectQueries PatchEncoder PlainDecoder
        PointQueries
        PooledDocument PositionalSelfAttention Pretraining PretrainingBERT Projected ScalarMix SegmentMemory Segmenter
        SentenceHead SeparateSteps Seq2Seq Seq2SeqState SharedSteps ShowAndTell ShowAttendAndTell SimCLR Span SpanHead
        TagHead Transformer TransformerXL Universal UniversalOutput ViT bahdanau_steps best_span bidirectional_gru
        caption_step classification_head compose_document doubly_stochastic_penalty ema_update ema_update_
        fused_bidirectional_gru hoisted_bahdanau_steps read_objects repeat_block scalar_mix shared_encoder
        sinusoidal_positions_2d
        soft_attention stacked_bidirectional_gru step_encoding
    """,
    "course_lib.generation": """
        Beam Cache CachedGPT Extension Generated LanguageModel beam_search decode extend_beam few_shot_prompt
        generate greedy greedy_translation next_word_probabilities rows_of sample top_k top_p
    """,
    "course_lib.pretrained": """
        Checkpoint load_bert load_deit load_gpt2 load_pretraining_bert load_vit read_checkpoint
    """,
    "course_lib.losses": """
        BoxWeights Masked Matching Segmented SentencePairs SetLoss byol_loss corrupt deep_set_loss dice_loss
        distillation_loss focal_loss gathered_nt_xent hard_attention_loss hard_distillation_loss label_smoothed_loss
        lean_nt_xent mask_tokens
        match match_greedily match_in_order matching_cost mlm_loss next_token_loss nsp_pairs nt_xent
        previous_token_loss segment_input set_loss teacher_forced_loss
    """,
    "course_lib.metrics": """
        BERT_BASE BERT_LARGE BLEU GPT_1 GPT_2 GPT_3 MIXER_BASE MIXER_HUGE MIXER_LARGE MIXER_SMALL TRANSFORMER_BASE
        TRANSFORMER_BIG VIT_BASE VIT_HUGE VIT_LARGE LinearProbe OperationCount add_one average_precision bert_parameters
        bleu block_parameters class_ious convolution_cost count_operations find_hits fine_tuned_head gpt_parameters
        linear_probe local_attention_cost mask_ious mean_average_precision mean_iou mixer_parameters spectrum
        training_operations transformer_parameters unsmoothed vit_parameters xlnet_parameters
    """,
    "course_lib.analysis": """
        Arrows HeadStatistics head_statistics record rollout strongest_arrows
    """,
    "course_lib.datasets": """
        ALONE BEGIN END FORMATS LOCALES LUMA PADDING PAPER PHOTOGRAPHS TWIN UNKNOWN WALL Augmentation BytePairs
        Captions Digits DisplayName Graph LabelledImages LabelledPixels LabelledText Lookup Pair PixelGraphs Play
        Recall Reversal Scenes SegmentedScenes Splits Sums Unreachable Videos Vocabulary Walks WrongChecksum cache_folder
        captioned_digits
        cifar10 clutter cluttered_scenes colour_matrix cora dates digit_scenes digits display_names docstrings download
        few_of_each ink_edges joined karate_club language_reference les_miserables lookup marked_neighbour
        marked_sentences matching_neighbour mnist moving_digits multi30k number_words pad photographs pixel_graphs
        recall recolour resize reversal same_or_different secret_orders see_also shakespeare spelled split sums twins
        verses walks warp word_pieces
    """,
    "course_lib.optional_import": """
        optional_import
    """,
    "course_lib.training": """
        TrainingStep adam adamw batches constant cosine_decay inverse_square_root linear_decay train
    """,
    "course_lib.truncated_bptt": """
        Segment detached segments truncated_bptt
    """,
    "course_tools.checks": """
        Exercise Finding Property Verdict
    """,
    "course_tools.bank": """
        UnknownExercise exercise exercises verdict
    """,
    "course_tools.notebook": """
        ClaimFailed at_scale boxed check claim device diagrams digit_split explore failing grey ledger microscope
        my_progress peak_memory plots predict progress recorded show show_study weight_maps
    """,
}

each_package = pytest.mark.parametrize("package", PUBLIC)


def names_of(package: str) -> list[str]:
    """Return the public names of a package: its `__all__`, or the definitions of a single file."""
    module = import_module(package)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return getattr(module, "__all__", sorted(name for name in own if not name.startswith("_")))


def in_order(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions, as in ruff's RUF022."""
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name


@each_package
def test_the_public_names_are_those_written_here(package):
    assert set(names_of(package)) == set(PUBLIC[package].split())


@each_package
def test_the_list_of_public_names_is_sorted(package):
    assert names_of(package) == sorted(names_of(package), key=in_order)


@each_package
def test_every_public_name_resolves_and_has_a_docstring(package):
    module = import_module(package)
    assert module.__doc__
    for name in names_of(package):
        value = getattr(module, name)
        if isinstance(value, ModuleType) or (
            inspect.isclass(value) and value.__module__.startswith(("course_lib", "course_tools"))
        ):
            assert vars(value).get("__doc__"), f"{package}.{name} has no docstring of its own"
        elif inspect.isfunction(value):
            assert value.__doc__, f"{package}.{name} has no docstring"


@each_package
def test_the_docstring_of_a_function_names_its_arguments(package):
    """It names each argument, or states shapes; a function with the same signature names the function that it equals."""
    module = import_module(package)
    for name in names_of(package):
        function = getattr(module, name)
        if not inspect.isfunction(function):
            continue
        text = function.__doc__
        unnamed = [p for p in inspect.signature(function).parameters if not re.search(rf"\b{p}s?\b", text)]
        told = not unnamed or re.search(r"\([^)]*\b(?:T|B|batch)\b[^)]*\)|`\w+`|[Cc]ompute the same", text)
        assert told, f"{package}.{name} does not mention {unnamed}"


def test_every_package_of_the_library_is_frozen():
    paths = Path(course_lib.__file__).parent.iterdir()
    packages = {f"course_lib.{path.stem}" for path in paths if (path / "__init__.py").exists() or path.suffix == ".py"}
    assert packages - {"course_lib.__init__"} == {name for name in PUBLIC if name.startswith("course_lib.")}
