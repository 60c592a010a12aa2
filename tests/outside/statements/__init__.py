"""Net 2: random populations, estimators and questions, whose answers must hold as often as they say."""
