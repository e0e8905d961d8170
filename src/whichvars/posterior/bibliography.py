"""References as BibTeX entries, from the lines of the methods paragraph."""

import re
from importlib.metadata import version

AUTHORS = re.compile(r"([^,]+), ((?:[^\W\d_]\.[- ]?)+)(?:, | and |$)")
REFERENCE = re.compile(r"(?P<authors>.+?) \((?P<year>\d{4})\)\. (?P<title>.+?)\. (?P<where>.+)\.$")
JOURNAL = re.compile(r"(?P<journal>[^\d]+) (?P<volume>\d+), (?P<pages>[\d–]+)$")
CHAPTER = re.compile(r"In (?P<booktitle>.+), (?P<pages>[\d–]+)$")
PREPRINT = re.compile(r"arXiv:(?P<eprint>[\d.]+)$")
# words of titles that keep their capitals
PROPER = re.compile(r"\b(Bayes|Bayesian|Monte Carlo|Markov|MCMC)\b")


def bibtex(references: list[str]) -> str:
    """BibTeX entries of the package itself and of these references, which are lines of the methods paragraph.

    >>> print(bibtex(["Schwarz, G. (1978). Estimating the dimension of a model. Annals of Statistics 6, 461–464."]).split("\\n\\n")[1])
    @article{schwarz1978,
      author = {Schwarz, G.},
      title = {Estimating the dimension of a model},
      year = {1978},
      journal = {Annals of Statistics},
      volume = {6},
      pages = {461--464},
    }
    """
    own = _entry(
        "software",
        "whichvars",
        {
            "title": "whichvars: {Bayesian} variable selection in {Python}",
            "version": version("whichvars"),
        },
    )
    keys: dict[str, int] = {}
    return "\n\n".join([own, *(_converted(line, keys) for line in references)]) + "\n"


def _converted(line: str, keys: dict[str, int]) -> str:
    """One reference; `keys` counts those that would have the same key."""
    found = REFERENCE.match(line)
    assert found is not None, line
    authors = [f"{last.strip()}, {initials.strip()}" for last, initials in AUTHORS.findall(found["authors"])]
    key = re.sub(r"[^a-zø-ÿł]", "", authors[0].split(",")[0].lower()) + found["year"]
    keys[key] = keys.get(key, 0) + 1
    if keys[key] > 1:
        key += "abcdefgh"[keys[key] - 1]
    fields = {
        "author": " and ".join(authors),
        "title": PROPER.sub(r"{\1}", found["title"]),
        "year": found["year"],
    }
    where = found["where"]
    for kind, form in (("article", JOURNAL), ("incollection", CHAPTER), ("misc", PREPRINT)):
        parts = form.match(where)
        if parts is not None:
            more = {name: value.replace("–", "--") for name, value in parts.groupdict().items()}
            if kind == "misc":
                more["archiveprefix"] = "arXiv"
            return _entry(kind, key, fields | more)
    return _entry("misc", key, fields | {"howpublished": where})


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
