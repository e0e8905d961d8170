"""Checks the built documentation: every link leads somewhere, and no page loads anything from the network.

``python docs/check.py docs/_build/html``. Links to other sites are not followed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
LOADED_LINKS = {"stylesheet", "preload", "icon", "shortcut icon", "modulepreload"}


class Page(HTMLParser):
    """What a page loads, what it links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag in LOADED and LOADED[tag] in values:
            self.loads.append(values[LOADED[tag]])
        if tag == "link" and values.get("rel", "").lower() in LOADED_LINKS:
            self.loads.append(values.get("href", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


def faults(folder: Path) -> list[str]:
    """What is wrong with the pages of a folder, a line each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    out = []
    for path, page in pages.items():
        name = path.relative_to(folder)
        out += [
            f"{name} loads {url}"
            for url in page.loads
            if urlsplit(url).scheme in ("http", "https") or url.startswith("//")
        ]
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path.resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                out.append(f"{name} links to {link}, which is not there")
            elif target.suffix == ".html" and unquote(url.fragment) not in pages[target].anchors:
                out.append(f"{name} links to {link}, where there is no such place")
    return out


if __name__ == "__main__":
    found = faults(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "every link leads somewhere, and nothing is loaded from the network")
    sys.exit(bool(found))
