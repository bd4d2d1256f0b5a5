"""Semantic segmentation: a class for every pixel, from backbone features and global context features.

Zhang, Zhang, Wang, Xie 2019, *Co-occurrent Features in Semantic Segmentation*, section 3.3 and figure 2
(https://openaccess.thecvf.com/content_CVPR_2019/html/Zhang_Co-Occurrent_Features_in_Semantic_Segmentation_CVPR_2019_paper.html):

    logits = W [x ; c_1(x) ; c_2(x) ; …]        c: co-occurrent features, the mean of the image

at each pixel of the backbone's map x, then interpolated to the size of the image.
"""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.shapes import Image

__all__ = ["Segmenter"]


class Segmenter(nn.Module):
    """A backbone, context features, and one layer that classifies each pixel."""

    def __init__(self, backbone: nn.Module, n_classes: int, contexts: Sequence[nn.Module] = ()) -> None:
        """Set up the model.

        Args:
            backbone: images (B, C, H, W) to a map (B, backbone.d_out, h, w), such as `ConvNet`.
            n_classes: classes of a pixel.
            contexts: each maps the backbone's features to (B, context.d_out, h, w): `GlobalAverage(d)`, or an attention, such
                as `CoOccurrent(d, d_k, d_v)` or `NonLocal(d)`, in `ContextOf`. None: the backbone's features alone.
        """
        super().__init__()
        self.backbone = backbone
        self.contexts = nn.ModuleList(contexts)
        self.W = nn.Conv2d(sum(cast(int, part.d_out) for part in (backbone, *contexts)), n_classes, 1)

    def forward(self, images: Image) -> Float[Tensor, "B n_classes H W"]:
        """Return the logits of each pixel, interpolated from those of the map to the size of the images."""
        x = self.backbone(images)
        logits = self.W(torch.cat([x, *(context(x) for context in self.contexts)], dim=1))
        return F.interpolate(logits, images.shape[2:], mode="bilinear", align_corners=False)
