"""The sections that the search names first, for queries as students type them."""

import pytest

from course_tools.publishing.project import lectures, project_root
from course_tools.publishing.site import web_pages
from tests.course_tools.browser import chromium

QUERIES = {
    "why do rnns forget": "01 · Recurrence › 4",
    "lstm forget gate": "01 · Recurrence › 6",
    "teacher forcing": "02 · Alignment › 1",
    "padding mask": "02 · Alignment › 5",
    "show attend and tell": "03 · Looking and reading › 3",
    "why divide by root d": "04 · Self-attention › 4",
    "causal mask": "04 · Self-attention › 5",
    "multi head": "04 · Self-attention › 6",
    "attention heatmap": "04 · Self-attention › 7",
    "permutation equivariance": "05 · The Transformer › 1",
    "positional encoding sinusoidal": "05 · The Transformer › 2",
    "cross attention": "05 · The Transformer › 4",
    "bleu score": "05 · The Transformer › 12",
    "greedy decoding": "05 · The Transformer › 13",
    "ponder cost": "06 · The Universal Transformer › 5",
    "in context learning": "07 · Generative pre-training › 1",
    "nucleus sampling top p": "07 · Generative pre-training › 10",
    "next sentence prediction": "08 · Bidirectional pre-training: ELMo, BERT › Next-sentence",
    "relative position bias": "10 · Local attention › 5",
    "distillation deit": "11 · Vision Transformer › Distillation",
    "non maximum suppression": "12 · Detection with DETR › 1",
    "permuted pixels mixer": "13 · MLP-Mixer › 4",
    "linear attention kernel trick": "14 · Linear transformers › 2",
    "oversmoothing gnn": "15 · Attention on graphs › Depth",
    "byol predictor collapse": "16 · Self-supervision: SimCLR and BYOL › 7",
    "swiglu": "17 · The decoder of today › 4",
    "mamba state space": "18 · A memory of fixed size › Mamba",
    "gated deltanet": "18 · A memory of fixed size › 4",
    "flash attention": "19 · Attention as an algorithm: exact, and cheaper › 3",
    "what is a hidden state": "01 · Recurrence › 2",
    "exploding gradients": "01 · Recurrence › 13",
    "message passing": "15 · Attention on graphs › 5",
    "negative samples": "16 · Self-supervision: SimCLR and BYOL › 3",
    "layer norm vs rms norm": "17 · The decoder of today › 4",
    "vit patch size": "11 · Vision Transformer › 2",
    "how to install": "How to install it",
    "how is my answer graded": "For students › How would my notebook be graded",
    "gpu needed": "For students › Do I need a GPU",
    "submit homework": "For students › How would my notebook be graded",
}


@pytest.fixture(scope="module")
def data() -> tuple[str, str]:
    """The scripts of the glossary and of all sections."""
    root = project_root()
    glossary, start = ((root / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("glossary", "start"))
    return web_pages.glossary_terms(glossary), web_pages.section_words(lectures(root), start)


@pytest.mark.browser
def test_queries_lead_to_the_right_section_first(data):
    script = project_root() / "course_tools" / "publishing" / "site" / "static" / "best_sections.js"
    with chromium() as browser:
        page = browser.new_page()
        for text in (*data, script.read_text(encoding="utf-8")):
            page.add_script_tag(content=text)
        ask = "query => courseRank(query, COURSE_SECTIONS, COURSE_TERMS)[0]?.title ?? ''"
        found = {query: page.evaluate(ask, query) for query in QUERIES}
        assert page.evaluate("courseRank('the of xyzzy', COURSE_SECTIONS, COURSE_TERMS)") == []
    assert {query: title for query, title in found.items() if not title.startswith(QUERIES[query])} == {}


def test_the_words_of_all_sections_are_a_small_file(data):
    assert len(data[1].encode()) < 400_000
