"""The store: the rules of `domain` made atomic for every process at once."""
