"""The findings that open the evidence: each with the number of a claim and a link to it."""

import re

import pytest

from course_tools.publishing import PublishingFailed
from course_tools.publishing.project import project_root
from course_tools.publishing.site import evidence
from course_tools.publishing.site.evidence import findings

ROOT = project_root()


@pytest.fixture
def listed(monkeypatch, tmp_path):
    """Return `listed(says)`: the findings of this course if its list had one with these words."""

    def made(says: str) -> str:
        (tmp_path / "findings.toml").write_text(f'[[group]]\ntitle = "A"\nfindings = ["{says}"]\n', encoding="utf-8")
        monkeypatch.setattr(evidence, "FINDINGS", str(tmp_path / "findings.toml"))
        return findings(ROOT)

    return made


def test_each_has_a_number_and_its_source():
    lines = re.findall(r"^\d+\. .*", findings(ROOT), re.MULTILINE)
    assert lines
    assert [line for line in lines if not re.search(r"\d.*\(\[\d\d\.\S+\]\(\.\./solutions/\S+#\S+\)", line)] == []
    assert not re.search(r"[{}]", "".join(lines))


def test_a_number_is_that_of_the_claim_in_the_format_asked_for(listed):
    shown = listed("Most: {04.h:unmasked|.0%}, or {04.h:unmasked}")
    assert re.search(r"1\. Most: \d+\s%, or 0\.\d+ \(\[04\.h\]\(\.\./solutions/04_self_attention\.ipynb#5-Masks\)\)", shown)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("All: {04.nowhere}", "no solution makes the claim 04.nowhere"),
        ("No number.", "contains no number of a claim"),
        ("All: {04.h:none}", "instead of 04.h:none"),
        ("All: {04.h:masked|.0w}", "Unknown format code"),
    ],
)
def test_a_finding_without_a_measured_number_is_refused(listed, says, message):
    with pytest.raises(PublishingFailed, match=re.escape(message)) as raised:
        listed(says)
    assert says in str(raised.value)
