"""Texts that each follow a secret order of letters: accuracy of models and of counts, induction heads, few-shot prompts."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets.secret_orders import Walks, secret_orders, successors, walks
from course_lib.models import NGram
from course_lib.primitives import causal_mask
from course_tools.notebook.device import device

LETTERS = "ABCDEFGH"


class OrderTask(NamedTuple):
    """Texts for training and for testing, and the orders (n, 8) of the test texts, which no training text follows."""

    train: Walks
    test: Walks
    test_orders: Tensor


def order_task(seed: int) -> OrderTask:
    """Draw 3,000 orders for 8,000 training texts and 1,000 other orders for 500 test texts, of 32 letters each."""
    orders = secret_orders(3_000, 100, 1_000, len(LETTERS), seed=seed)
    return OrderTask(walks(orders.train, 8_000, seed=seed), walks(orders.test, 500, seed=100 + seed), orders.test)


def print_texts(texts: Walks, n: int) -> None:
    """Print the first n texts; a star marks each step that the text has shown before."""
    for tokens, told in zip(texts.tokens[:n].tolist(), texts.told[:n].tolist(), strict=True):
        print(*(LETTERS[letter] + "*" * scored for letter, scored in zip(tokens, told, strict=True)))


@torch.no_grad()
def accuracy_on_orders(model: nn.Module, new: Walks) -> float:
    """Measure the accuracy on the steps of new texts that the text has shown before."""
    tokens, told = (part.to(device()) for part in new)
    return (model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:])[told[:, 1:]].float().mean().item()


def accuracy_of_counts(known: Walks, new: Walks, order: int = 5) -> float:
    """Measure the accuracy on the same steps of a table that has counted runs of `order` letters in the known texts."""
    counts = NGram(known.tokens.unfold(1, order, 1).flatten(0, 1), len(LETTERS))
    runs = new.tokens.unfold(1, order, 1)[new.told[:, order - 1 :]]
    return (counts.probabilities(runs[:, :-1]).argmax(1) == runs[:, -1]).float().mean().item()


def accuracy_of_own_counts(new: Walks) -> float:
    """Measure the accuracy on the same steps of a separate table for each text, which counts what the text has shown so far.

    It predicts the letter that has followed the current one most often; of equals, that with the earlier mean position.
    """
    T = new.tokens.shape[1]
    places = after_copies(new.tokens) * (1 - torch.arange(T) / T**2)  # what is lost sums to less than one count
    follows = places @ F.one_hot(new.tokens, len(LETTERS)).to(places.dtype)
    return (follows[:, :-1].argmax(-1) == new.tokens[:, 1:])[new.told[:, 1:]].float().mean().item()


def accuracy_of_last_copy(new: Walks) -> float:
    """Measure the accuracy on the same steps of the rule: what followed the last copy of the letter follows it again."""
    places = after_copies(new.tokens) * torch.arange(1, new.tokens.shape[1] + 1)
    copied = new.tokens.gather(1, places.argmax(-1))
    return (copied[:, :-1] == new.tokens[:, 1:])[new.told[:, 1:]].float().mean().item()


def accuracy_of_distances(known: Walks, new: Walks) -> float:
    """Measure the accuracy on the same steps of a rule that knows only how many places back each letter last stood.

    It predicts the letter at the distance that was right most often in the known texts.
    """
    T, right, asked = known.tokens.shape[1], *torch.zeros(2, known.tokens.shape[1] + 1)
    back, wanted = (part[:, 1:][known.told[:, 1:]] for part in (_places_back(known.tokens), known.tokens))
    right.index_add_(0, back.gather(1, wanted[:, None])[:, 0], torch.ones(len(back)))
    asked.index_add_(0, back.flatten(), torch.ones(back.numel()))
    odds = right / asked.clamp(min=1)
    odds[T] = 0.0
    found = odds[_places_back(new.tokens)].argmax(-1)
    return (found == new.tokens)[:, 1:][new.told[:, 1:]].float().mean().item()


def _places_back(tokens: Tensor) -> Tensor:
    """For each position of (B, T), how many places before it each letter last stood, (B, T, 8); T if it did not."""
    B, T = tokens.shape
    back = torch.full((B, T, len(LETTERS)), T)
    for t in range(1, T):
        back[:, t] = (back[:, t - 1] + 1).clamp(max=T)
        back[:, t].scatter_(1, tokens[:, t - 1, None], 1)
    return back


def after_copies(tokens: Tensor) -> Tensor:
    """Find where an induction head should attend, (B, T, T), bool: key j follows an earlier copy of the token at query i."""
    before = F.pad(tokens[:, :-1], (1, 0), value=-1)
    return (tokens[:, :, None] == before[:, None, :]) & causal_mask(tokens.shape[1])


class HeadWeights(NamedTuple):
    """For each head (h,): the mean weight on the preceding token in layer 1, and after earlier copies in layer 2."""

    previous: Tensor
    induction: Tensor


def head_weights(layers: Sequence[Tensor], new: Walks) -> HeadWeights:
    """Measure how much weight the heads of a GPT of two layers assign where an induction head needs it.

    Args:
        layers: the attention weights (B, h, T, T) of the two layers on the texts.
        new: the texts; layer 2 is measured at the letters whose next step the text has shown before.
    """
    first, second = layers
    places = after_copies(new.tokens)
    asked = places.any(-1) & F.pad(new.told[:, 1:], (0, 1))
    on_places = (second * places[:, None]).sum(-1).transpose(0, 1)[:, asked].mean(-1)
    return HeadWeights(first.diagonal(offset=-1, dim1=-2, dim2=-1).mean((0, 2)), on_places)


class OrderQuestion(NamedTuple):
    """A letter, the prompt that asks what follows it, the true answer, and the examples of the prompt, letter → answer."""

    letter: str
    prompt: str
    truth: str
    examples: dict[str, str]


def questions(
    orders: Tensor, n_shots: int, seed: int, few_shot_prompt: Callable[..., str], false: bool = False, after_round: bool = False
) -> list[OrderQuestion]:
    """Create a question for each order, with a prompt of n_shots examples.

    Args:
        orders: (n, 8).
        n_shots: number of examples in a prompt, 0 to 8; if there are any, one of them answers the question.
        seed: determines letters and examples.
        few_shot_prompt: such as that of `course_lib.generation`.
        false: whether each example shows the letter after the next, which is wrong.
        after_round: whether the prompt begins with one true round of the order, nine letters from a random one on.
    """
    generator, made = torch.Generator().manual_seed(seed), []
    for follows in successors(orders).tolist():
        chosen = torch.randperm(len(LETTERS), generator=generator).tolist()
        asked = chosen[int(torch.randint(max(n_shots, 1), (), generator=generator))]
        shown = {LETTERS[given]: LETTERS[follows[follows[given]] if false else follows[given]] for given in chosen[:n_shots]}
        letter = LETTERS[asked]
        first = [int(torch.randint(len(LETTERS), (), generator=generator))]
        for _ in follows:
            first.append(follows[first[-1]])
        task = "".join(LETTERS[place] for place in first) if after_round else ""
        prompt = few_shot_prompt(list(shown.items()), letter, ("letter", "next"), task)
        made.append(OrderQuestion(letter, prompt, LETTERS[follows[asked]], shown))
    return made


@torch.no_grad()
def next_letter(model: nn.Module, prompts: Iterable[str]) -> Tensor:
    """Compute the probabilities (n, 8) of the letter after each prompt.

    The model reads only the letters A to H; all other characters of a prompt are dropped. All prompts must contain the same
    number of these letters.
    """
    tokens = [[LETTERS.index(letter) for letter in prompt if letter in LETTERS] for prompt in prompts]
    return model(torch.tensor(tokens, device=device()))[:, -1].softmax(-1).cpu()


class LetterAnswers(NamedTuple):
    """For each question (n,), bool: the answer is true; it is that of the example."""

    true: Tensor
    as_shown: Tensor

    @property
    def accuracy(self) -> float:
        """The fraction of true answers."""
        return self.true.float().mean().item()

    @property
    def follows_examples(self) -> float:
        """The fraction of answers that are those of the example."""
        return self.as_shown.float().mean().item()


def answers(model: nn.Module, asked: Sequence[OrderQuestion]) -> LetterAnswers:
    """Answer questions by the most likely letter of a model."""
    given = [LETTERS[i] for i in next_letter(model, [question.prompt for question in asked]).argmax(-1).tolist()]
    rows = [(answer == q.truth, answer == q.examples.get(q.letter)) for q, answer in zip(asked, given, strict=True)]
    return LetterAnswers(*torch.tensor(rows).unbind(1))


def share_of_copies(model: nn.Module, asked: Sequence[OrderQuestion]) -> float:
    """Measure how often a model answers with a letter that follows the question's letter somewhere in the prompt."""
    found = []
    for question, p in zip(asked, next_letter(model, [each.prompt for each in asked]), strict=True):
        letters = [letter for letter in question.prompt if letter in LETTERS]
        found.append((question.letter, LETTERS[p.argmax()]) in set(pairwise(letters)))
    return mean(found)


# Few-shot prompts for models that find a secret order: accuracy by number of examples, true or false.


def answers_by_shots(
    model: nn.Module, orders: Tensor, few_shot_prompt: Callable[..., str], false: bool = False, after_round: bool = False
) -> list[LetterAnswers]:
    """Ask a model one question about each order (n, 8), with 0 to 8 examples in the prompt; return the answers for each number.

    Args:
        model: from tokens (B, T) to next-token logits.
        orders: the orders.
        few_shot_prompt: such as that of `course_lib.generation`.
        false: whether each example shows the letter after the next, which is wrong.
        after_round: whether each prompt begins with one true round of the order.
    """
    shots = range(len(LETTERS) + 1)
    return [answers(model, questions(orders, n, 0, few_shot_prompt, false, after_round)) for n in shots]


def print_next_letter(model: nn.Module, prompt: str) -> None:
    """Print a prompt, and the probability of each of the eight letters after it."""
    odds = next_letter(model, [prompt])[0].tolist()
    print(prompt, " ".join(f"{letter} {p:.2f}" for letter, p in zip(LETTERS, odds, strict=True)))
