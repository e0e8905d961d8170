"""Other programs on the same data, under the same prior where they offer it, judged by the same references."""
