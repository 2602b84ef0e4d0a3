"""Loading of images from folders, tables, dataset ids and the procedural scenes."""
