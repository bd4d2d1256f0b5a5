"""Grey images: draw one channel in grey instead of the colours of a map."""

import numpy as np

from course_tools.notebook.legible import Numbers, to_array


def grey(image: Numbers) -> np.ndarray:
    """Repeat the channel of an image three times, so that figures draw it in grey.

    Args:
        image: (H, W) or (1, H, W), in 0…1.

    Returns:
        (H, W, 3).
    """
    array = to_array(image)
    return np.repeat(array.reshape(*array.shape[-2:], 1), 3, axis=-1)
