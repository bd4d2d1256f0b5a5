"""Learning-management systems: gradebooks of Canvas and Moodle, nbgrader."""
