"""Learning-management systems: Canvas, Moodle, nbgrader, Gradescope, GitHub."""
