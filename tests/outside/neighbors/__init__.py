"""Net 5: random neighbors with hostile rows, under random options, for all that the plan of a release says of a row."""
