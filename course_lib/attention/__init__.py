"""Attention = score → normalise → mix: the core, and one file per mechanism."""

from course_lib.attention.additive import *
from course_lib.attention.chunked_delta import *
from course_lib.attention.chunked_linear import *
from course_lib.attention.co_occurrent import *
from course_lib.attention.core import *
from course_lib.attention.decay import *
from course_lib.attention.delta import *
from course_lib.attention.dot_product import *
from course_lib.attention.dropout import *
from course_lib.attention.edge_attention import *
from course_lib.attention.gated_delta import *
from course_lib.attention.graph import *
from course_lib.attention.grouped import *
from course_lib.attention.image import *
from course_lib.attention.linear import *
from course_lib.attention.local import *
from course_lib.attention.luong_local import *
from course_lib.attention.multihead import *
from course_lib.attention.non_local import *
from course_lib.attention.paged import *
from course_lib.attention.performer import *
from course_lib.attention.pooling import *
from course_lib.attention.relative import *
from course_lib.attention.rotary import *
from course_lib.attention.state_space import *
from course_lib.attention.tiled import *
