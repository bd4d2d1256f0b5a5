"""Diagrams of the mechanisms and models of the course, with the tensor shapes of the running library.

`diagrams.multi_head()` shows one in a notebook. In `authoring/`, `![](diagram:multi_head)` as the last line of a
Markdown cell inserts it.
"""

from course_tools.notebook.diagrams.alignment import (
    aligned_decoder,
    bahdanau,
    encoder_decoder,
    hierarchical,
    show_attend_and_tell,
)
from course_tools.notebook.diagrams.attention import masks, multi_head, scaled_dot_product, tiled
from course_tools.notebook.diagrams.drawing import Box, Diagram
from course_tools.notebook.diagrams.graphs import gat, message_passing, room_attention
from course_tools.notebook.diagrams.linear_attention import delta_rule, linear_recurrence, performer
from course_tools.notebook.diagrams.recurrent import gru_cell, lstm_cell, rnn
from course_tools.notebook.diagrams.self_supervision import byol, simclr
from course_tools.notebook.diagrams.transformers import (
    bert_heads,
    bert_input,
    elmo,
    gpt,
    induction_heads,
    key_value_cache,
    llama,
    residual_connections,
    transformer,
    universal_transformer,
)
from course_tools.notebook.diagrams.vision import (
    co_occurrent,
    deit,
    detr,
    detr_matching,
    local_window,
    mixer,
    non_local,
    vit,
)

ALL = (
    *(rnn, lstm_cell, gru_cell, encoder_decoder, aligned_decoder, bahdanau, show_attend_and_tell, hierarchical),
    *(scaled_dot_product, multi_head, masks, transformer, residual_connections, universal_transformer, gpt, induction_heads),
    *(key_value_cache, elmo, bert_input, bert_heads, non_local, co_occurrent, local_window, vit, deit, detr, detr_matching),
    *(mixer, linear_recurrence, performer, message_passing, room_attention, gat, simclr, byol, llama, delta_rule, tiled),
)
"""All diagrams, in the order of the lectures."""

__all__ = [
    "ALL",
    "Box",
    "Diagram",
    "aligned_decoder",
    "bahdanau",
    "bert_heads",
    "bert_input",
    "byol",
    "co_occurrent",
    "deit",
    "delta_rule",
    "detr",
    "detr_matching",
    "elmo",
    "encoder_decoder",
    "gat",
    "gpt",
    "gru_cell",
    "hierarchical",
    "induction_heads",
    "key_value_cache",
    "linear_recurrence",
    "llama",
    "local_window",
    "lstm_cell",
    "masks",
    "message_passing",
    "mixer",
    "multi_head",
    "non_local",
    "performer",
    "residual_connections",
    "rnn",
    "room_attention",
    "scaled_dot_product",
    "show_attend_and_tell",
    "simclr",
    "tiled",
    "transformer",
    "universal_transformer",
    "vit",
]
