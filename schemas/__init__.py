"""JSON Schemas of everything that graphrepro stores or prints."""
