"""`course slides`: a lecture as slides for teachers, made from the solved notebook."""
