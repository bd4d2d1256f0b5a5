"""State-space duality: attention under a decay mask is the recurrence of a state-space model."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import ssd

B, h, T, d, d_v = 2, 3, 7, 5, 11


def test_it_is_its_recurrence(normal, agree):
    def recurrence(x, raw, log_A, B_, C):
        dt, A, state, rows = F.softplus(raw), -log_A.exp(), 0, []
        for t in range(T):
            entering = torch.einsum("bhn,bhd->bhnd", B_[:, :, t], dt[:, :, t, None] * x[:, :, t])
            state = (dt[:, :, t] * A).exp()[..., None, None] * state + entering
            rows.append(torch.einsum("bhn,bhnd->bhd", C[:, :, t], state))
        return torch.stack(rows, dim=-2)

    def masked(x, raw, log_A, B_, C):
        return ssd(x, F.softplus(raw), -log_A.exp(), B_, C)

    agree(masked, recurrence, normal(B, h, T, d_v), normal(B, h, T), normal(h), normal(B, h, T, d), normal(B, h, T, d))


def test_by_hand():
    """dt = 1 and A = -ln 2: each step halves the state. Inputs 4 and 6, all B and C 1: 4, then 2 + 6."""
    one = torch.ones(2, 1)
    y = ssd(torch.tensor([[4.0], [6.0]]), torch.ones(2), -math.log(2), one, one)
    torch.testing.assert_close(y, torch.tensor([[4.0], [8.0]]))


def test_a_state_that_grows_is_refused(normal):
    x, B_, C = normal(T, d_v), normal(T, d), normal(T, d)
    for A, dt in ((0.5, 1.0), (-0.5, -1.0)):
        with pytest.raises(ValueError, match="at most 0: a memory that grows"):
            ssd(x, torch.full((T,), dt).double(), A, B_, C)


def test_it_is_the_scan_of_mamba_2_at_hugging_face():
    """Their chunks of four positions, in torch, with one B and C for two heads each."""
    reason = "transformers is not installed: pip install -e '.[peers]'"
    published = pytest.importorskip("transformers.models.mamba2.modeling_mamba2", reason=reason)
    torch.manual_seed(0)
    x, dt, A = torch.randn(B, T, 4, d_v), F.softplus(torch.randn(B, T, 4)), -torch.rand(4)
    B_, C = torch.randn(2, B, T, 2, d)
    theirs = published.mamba2_chunk_scan(x, dt, A, B_, C, chunk_size=4)
    B_, C = (part.repeat_interleave(2, dim=2).transpose(1, 2) for part in (B_, C))
    ours = ssd(x.transpose(1, 2), dt.mT, A, B_, C)
    torch.testing.assert_close(ours.transpose(1, 2), theirs.reshape(B, T, 4, d_v), atol=1e-5, rtol=1e-4)
