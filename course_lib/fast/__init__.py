"""Fast forms of the equations: fused, chunked, lean, tiled, sparse, hoisted, cached; each in a file of its equation's name.

A fast form computes what its equation computes, gradients included, and is passed where the equation is the default:
`MultiHead(d, h, fused_causal_attention)`, `LSTM(d, n, fused_lstm)`. Time and memory: how many times as much a training step by
the equation needs, measured on one CPU thread (docs/performance.md; docs/gpu.md for a GPU).

    equation                      fast form                        choose it                                  time   memory
    scaled_dot_product_attention  fused_scaled_dot_product_…       no weights needed, T ≥ 64; always on a GPU 1-1.2  1.2-3
    causal_attention              fused_causal_attention           as above                                   1-1.2  1.2-3
    dot_attention                 fused_dot_attention              as above                                   1.3-2  8
    causal_linear_attention       chunked_linear_attention         always in training                         45-50  15
                                  lean_linear_attention            long sequences, features that do not learn 50     50
    causal_performer_attention    lean_performer_attention         long sequences; against chunks             1-1.1  5-7
    linear_attention_step         inplace_linear_attention_step    no gradients, the old state is not needed  3.5    3
    local_attention               sliced_local_attention           windows of 3 × 3                           3-4    4
                                  tiled_local_attention            windows from 5 × 5 on, no weights needed   5-12   4-7
    attend_edges                  csr_attend_edges                 1,000 nodes or more                        1-4    3
    rnn                           hoisted_rnn                      always in training                         1.2-2  1
    lstm, gru                     fused_lstm, fused_gru            always in training                         1.2-6  0.5-1
    bidirectional_gru             fused_bidirectional_gru          on a GPU; on a CPU without gradients
                                  stacked_bidirectional_gru        small models trained on a CPU
    bahdanau_steps                hoisted_bahdanau_steps           always in training                         1.3-2  1.2
    nt_xent                       lean_nt_xent                     64 pairs or more                           1.4-3  1.7-3.5
                                  gathered_nt_xent                 several processes share one batch
    GPT.start, GPT.step           CachedGPT                        generation without gradients

Where a fast form is always the better one, it stands beside its equation in `course_lib.attention`, and is the default:
`chunked_linear_attention` of `LinearTransformer` and of the causal Performer, `chunked_delta_attention` for `delta_attention`,
and `shifted_relative_attention` of `RelativeAttention` and `TransformerXL`, six times as fast. So does `lean_elu_feature_map`
in `course_lib.primitives`, the feature map of `LinearTransformer`.

Weights exist only in the forms that return `Attended`; a form that returns `ContextOnly` never builds them.
"""

from course_lib.fast.bahdanau import *
from course_lib.fast.bigru_encoder import *
from course_lib.fast.dot_product import *
from course_lib.fast.edge_attention import *
from course_lib.fast.gpt import *
from course_lib.fast.linear import *
from course_lib.fast.local import *
from course_lib.fast.mlp_mixer import *
from course_lib.fast.non_local import *
from course_lib.fast.nt_xent import *
from course_lib.fast.performer import *
from course_lib.fast.recurrent import *
