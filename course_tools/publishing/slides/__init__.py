"""`course slides`: a lecture as slides for whoever teaches it, written from the solved notebook."""
