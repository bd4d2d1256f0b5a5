"""Draw a picture of one channel in grey, not in the colours of a map."""

import numpy as np

from course_tools.notebook.legible import Numbers, to_array


def grey(image: Numbers) -> np.ndarray:
    """Give a picture of one channel, (H, W) or (1, H, W) in 0…1, three equal ones, (H, W, 3), which figures draw in grey."""
    array = to_array(image)
    return np.repeat(array.reshape(*array.shape[-2:], 1), 3, axis=-1)
