"""Net 3: every call of every release after its charge can fail, and the error then says what was spent."""
