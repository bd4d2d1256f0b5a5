"""Published weights: read a checkpoint of GPT-2, Llama, BERT, ViT or DeiT into a model of this library."""

from course_lib.pretrained.bert import *
from course_lib.pretrained.gpt2 import *
from course_lib.pretrained.llama import *
from course_lib.pretrained.vit import *
