"""Net 4: private containers in every public slot, and no entry of them in anything that the package says."""
