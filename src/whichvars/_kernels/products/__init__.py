"""Products of columns: kept, or made where they are needed."""
