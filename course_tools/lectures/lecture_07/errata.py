"""Parameter counts of the table "Scaling Up Transformer" (deck CSE 891), recomputed from the sizes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from course_lib.metrics import (
    BERT_BASE,
    BERT_LARGE,
    GPT_2,
    GPT_3,
    TRANSFORMER_BASE,
    TRANSFORMER_BIG,
    bert_parameters,
    transformer_parameters,
    xlnet_parameters,
)


class ParameterCount(NamedTuple):
    """The number of parameters stated on the slide, and the number counted from the sizes."""

    stated: float
    counted: int

    @property
    def ratio(self) -> float:
        """Counted over stated."""
        return self.counted / self.stated


def scaling_table(gpt_parameters: Callable[[int, int, int, int], int]) -> dict[str, ParameterCount]:
    """Count the parameters of the ten models of the slide.

    Vocabulary sizes and numbers of positions are those of the published models; Turing-NLG's vocabulary was never published,
    so GPT-2's is used. The 12 layers of a Transformer on the slide are six of an encoder and six of a decoder.

    Args:
        gpt_parameters: counts those of a GPT of (n_tokens, T_max, d_model, n_layers), as that of `course_lib.metrics`.
    """
    bert = partial(bert_parameters, 30_522, 512)
    return {
        "Transformer-Base": ParameterCount(65e6, transformer_parameters(37_000, TRANSFORMER_BASE)),
        "Transformer-Large": ParameterCount(213e6, transformer_parameters(37_000, TRANSFORMER_BIG)),
        "BERT-Base": ParameterCount(110e6, bert(BERT_BASE.d_model, BERT_BASE.n_layers)),
        "BERT-Large": ParameterCount(340e6, bert(BERT_LARGE.d_model, BERT_LARGE.n_layers)),
        "XLNet-Large": ParameterCount(340e6, xlnet_parameters(32_000, 1_024, 24)),
        "RoBERTa": ParameterCount(355e6, bert_parameters(50_265, 514, 1_024, 24, n_segments=1)),
        "GPT-2": ParameterCount(1.5e9, gpt_parameters(50_257, 1_024, GPT_2.d_model, GPT_2.n_layers)),
        "Megatron-LM": ParameterCount(8.3e9, gpt_parameters(51_200, 1_024, 3_072, 72)),
        "Turing-NLG": ParameterCount(17e9, gpt_parameters(50_257, 1_024, 4_256, 78)),
        "GPT-3": ParameterCount(175e9, gpt_parameters(50_257, 2_048, GPT_3.d_model, GPT_3.n_layers)),
    }


def print_counts(rows: Mapping[str, ParameterCount]) -> None:
    """Print a line for each model: stated, counted, and the difference in percent."""
    for name, row in rows.items():
        print(f"{name:18} {row.stated:>15,.0f} on the slide {row.counted:>16,} from the sizes   {row.ratio - 1:+.1%}")
