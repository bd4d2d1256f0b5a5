"""`course slides`: a lecture as slides for its instructor, written from the solved notebook."""
