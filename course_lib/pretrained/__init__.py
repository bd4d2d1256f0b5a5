"""Published weights: read a checkpoint of GPT-2, BERT, ViT or DeiT into a model of this library."""

from course_lib.pretrained.bert import load_bert, load_pretraining_bert
from course_lib.pretrained.checkpoint_reader import Checkpoint, read_checkpoint
from course_lib.pretrained.gpt2 import load_gpt2
from course_lib.pretrained.vit import load_deit, load_vit

__all__ = [
    "Checkpoint",
    "load_bert",
    "load_deit",
    "load_gpt2",
    "load_pretraining_bert",
    "load_vit",
    "read_checkpoint",
]
