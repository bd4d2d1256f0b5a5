"""The rooms of each lecture: its experiments, figures and data, which no other lecture imports, and its claims as data.

`lecture_NN/` holds what lecture NN alone needs; its exercises are in `course_tools/bank/lecture_NN/`. What two lectures need
is in `course_tools/notebook/`, or in the library.
"""
