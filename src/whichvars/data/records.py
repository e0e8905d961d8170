"""Where the rows of a problem come from, for reports and papers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """The files that the rows were read from, how many these were (0 if that is not known), and how many of them were left out because values
    were missing."""

    file: str = ""
    rows_read: int = 0
    rows_dropped: int = 0

    def words(self) -> str:
        """A sentence for a methods section; empty if there is nothing to say."""
        rows = f"{self.rows_read:,} rows"
        read = f"The data were read from {self.file}" + f" ({rows})" * bool(self.rows_read)
        start = read if self.file else f"The data had {rows}"
        if self.rows_dropped:
            were = "was" if self.rows_dropped == 1 else "were"
            return f"{start}, of which {self.rows_dropped:,} {were} left out because of missing values."
        return f"{start}." if self.file else ""
