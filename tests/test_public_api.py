"""The public names of each floor, frozen: whoever adds, renames or removes one does it here too."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import course_lib

PUBLIC = {
    "shapes": "Context Edges Image Keys Lengths Logits Mask Nodes Queries Scores Sequence States Tokens Values Weights",
    "primitives": """
        GRU LSTM RNN LearnedPositions StepGradients batch_norm bptt_step carousel_gradient causal_mask clip_gradients
        dirichlet_energy encode fused_gru fused_lstm gcn_weights gru gru_step hoisted_rnn layer_norm lstm lstm_step
        padding_mask require_edges rnn rnn_step sinusoidal_positions with_self_loops
        elu_feature_map favor_features gaussian_projection orthogonal_projection orthogonalised trigonometric_features
    """,
    "attention": """
        AdditiveAttention Attended AttentionLayer2d ConcatAttention GeneralAttention Mechanism MultiHead
        additive_scores attend attend_edges attention_over_image average_heads causal_attention concat_scores
        dot_attention dot_scores dynamic_edge_scores edge_softmax fused_causal_attention
        fused_scaled_dot_product_attention gat_edge_scores gat_scores general_scores merge_heads multi_head_attention
        multi_head_graph_attention scaled_dot_product_attention split_heads
        LinearAttention PerformerAttention causal_linear_attention causal_performer_attention chunked_linear_attention
        inplace_linear_attention_step kernel_attention linear_attention linear_attention_step performer_attention
        recurrent_linear_attention
    """,
    "blocks": """
        Block CrossAttention DecoderBlock FeedForward Residual SelfAttention Sublayer feed_forward post_norm pre_norm
    """,
    "objectives": """
        teacher_forced_loss unit nt_xent byol_loss
    """,
    "models": """
        BahdanauDecoder Decoded Encoded Encoder LuongDecoder PlainDecoder Seq2Seq Spoken bahdanau_steps both_ways
        fused_both_ways hoisted_bahdanau_steps stacked_both_ways ema_update Probe linear_probe spectrum
    """,
    "datasets": """
        BEGIN END FORMATS LOCALES PADDING PHOTOGRAPHS UNKNOWN Digits Lookup Pair Recall Reversal Splits Unreachable
        Vocabulary WrongChecksum cache_folder dates digits download joined lookup multi30k number_words pad photographs
        recall resize reversal spelled split warp
    """,
    "training": "Step batches train",
    "teaching": "ClaimFailed at_scale claim device explore ledger plots progress record show",
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
