"""Exercises of lecture 15, Attention on graphs."""

from course_tools.bank.lecture_15 import (
    attend_edges,
    dirichlet_energy,
    dynamic_edge_scores,
    edge_softmax,
    gat_scores,
    gcn_weights,
    multi_head_graph_attention,
    train_gat,
)

EXERCISES = (
    gat_scores.exercise,
    edge_softmax.exercise,
    attend_edges.exercise,
    multi_head_graph_attention.exercise,
    gcn_weights.exercise,
    dynamic_edge_scores.exercise,
    dirichlet_energy.exercise,
    train_gat.exercise,
)
