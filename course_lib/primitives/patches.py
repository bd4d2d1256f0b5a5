"""Image patches: patchify, unpatchify, patch embedding, and interpolation of position embeddings.

Dosovitskiy et al. 2021, *An Image is Worth 16x16 Words*, eq. 1 and section 3.2 (https://arxiv.org/abs/2010.11929):

    z_0 = [x_class; x_p¹ E; x_p² E; … ; x_p^N E] + E_pos        x_p ∈ R^(N × P²·C),  N = H W / P²

A patch contains its channels one after the other, each row by row, like the weights of a convolution: E is a convolution of
size and stride P. For images of another size, E_pos is read as an image of d channels, and resized.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.preconditions import requires
from course_lib.shapes import Image

__all__ = ["embed_patches", "interpolate_positions", "patch_grid", "patchify", "unpatchify"]

Patches = Float[Tensor, "B N d_patch"]


def patch_grid(H: int, W: int, P: int) -> tuple[int, int]:
    """Count the rows and columns of patches, P × P pixels each, in an image of H × W pixels.

    Raises:
        ValueError: P does not divide H and W, or there is no pixel.
    """
    if P < 1 or H < P or W < P or H % P or W % P:
        raise ValueError(f"{H} × {W} pixels do not divide into patches of {P} × {P}: choose another P, or resize the images.")
    return H // P, W // P


def _require_grid(images: Tensor, P: int) -> None:
    patch_grid(images.shape[-2], images.shape[-1], P)


@requires(_require_grid)
def patchify(images: Image, P: int) -> Patches:
    """Cut images into non-overlapping square patches, each flattened to one vector.

    Args:
        images: (B, C, H, W); H and W may differ.
        P: side of a patch, in pixels.

    Returns:
        (B, N, C · P²): the N = H W / P² patches row by row from the top left, in each patch the first channel, row by row,
        then the next.

    Raises:
        ValueError: P does not divide H and W, or there is no pixel.

    Source: Dosovitskiy et al. 2021, section 3.1.
    """
    return rearrange(images, "B C (rows P_1) (columns P_2) -> B (rows columns) (C P_1 P_2)", P_1=P, P_2=P)


def unpatchify(patches: Patches, P: int, H: int, W: int) -> Image:
    """Assemble an image from its patches: the inverse of `patchify`.

    Args:
        patches: (B, N, C · P²).
        P: side of a patch, in pixels.
        H: height of the images, in pixels.
        W: width of the images, in pixels.

    Returns:
        images (B, C, H, W).

    Raises:
        ValueError: N patches of this size do not make images of H × W.
    """
    N, d_patch = patches.shape[1:]
    if P < 1 or H % P or W % P or d_patch % (P * P) or (H // P) * (W // P) != N:
        raise ValueError(f"{N} patches of {d_patch} numbers, {P} × {P} pixels each, do not make images of {H} × {W}.")
    rows = H // P
    return rearrange(patches, "B (rows columns) (C P_1 P_2) -> B C (rows P_1) (columns P_2)", rows=rows, P_1=P, P_2=P)


def _require_positions(patches: Tensor, E: Tensor, b: Tensor, learned: Tensor, positions: Tensor) -> None:
    """Raise a ValueError unless each learned token and each patch has a position."""
    n_tokens = len(learned) + patches.shape[-2]
    if len(positions) != n_tokens:
        raise ValueError(f"{len(positions)} positions for {n_tokens} tokens; for other sizes, `interpolate_positions`.")


@requires(_require_positions)
def embed_patches(
    patches: Patches,
    E: Float[Tensor, "d_model d_patch"],
    b: Float[Tensor, "d_model"],
    learned: Float[Tensor, "n_learned d_model"],
    positions: Float[Tensor, "T d_model"],
) -> Float[Tensor, "B T d_model"]:
    """Embed patches as tokens: the learned tokens first, then one for each patch; positions are added.

    Args:
        patches: (B, N, d_patch).
        E: (d_model, d_patch), stored as torch.nn.Linear stores it: the paper's x E is `x @ E.mT`.
        b: (d_model,).
        learned: (n_learned, d_model), tokens that are the same for every image: the class token; in DeiT a second one.
        positions: (T, d_model), T = n_learned + N, added to all tokens.

    Returns:
        (B, T, d_model).

    Raises:
        ValueError: the numbers of positions and tokens differ.

    Source: Dosovitskiy et al. 2021, eq. 1; two learned tokens: Touvron et al. 2021, figure 2.
    """
    tokens = torch.cat([learned.expand(patches.shape[0], -1, -1), patches @ E.mT + b], dim=1)
    return tokens + positions


def _require_grids(positions: Tensor, H: int, W: int, H_new: int, W_new: int) -> None:
    if len(positions) < H * W or min(H, W, H_new, W_new) < 1:
        raise ValueError(f"{len(positions)} positions cannot be resized from {H} × {W} patches to {H_new} × {W_new}.")


@requires(_require_grids)
def interpolate_positions(
    positions: Float[Tensor, "T d_model"], H: int, W: int, H_new: int, W_new: int
) -> Float[Tensor, "T_new d_model"]:
    """Resize the positions of a grid of patches to another grid, by bicubic interpolation.

    Args:
        positions: (T, d_model): those of T - H · W learned tokens, then those of the patches, row by row.
        H: height of the grid that they were learned for, in patches.
        W: its width, in patches.
        H_new: height of the new grid, in patches.
        W_new: its width, in patches.

    Returns:
        (T - H · W + H_new · W_new, d_model): those of the learned tokens unchanged, then those of the new grid.

    Raises:
        ValueError: there are fewer positions than patches, or a side of a grid is below 1.

    Source: Dosovitskiy et al. 2021, section 3.2, which does not specify the method: the authors' code interpolates linearly, by
    `scipy.ndimage.zoom`; DeiT's and Hugging Face's by bicubic interpolation with half-pixel centres, as here.
    """
    n_learned = len(positions) - H * W
    image = rearrange(positions[n_learned:], "(H W) d_model -> 1 d_model H W", H=H)
    resized = F.interpolate(image, (H_new, W_new), mode="bicubic", align_corners=False)
    return torch.cat([positions[:n_learned], rearrange(resized, "1 d_model H W -> (H W) d_model")])
