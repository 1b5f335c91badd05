"""The guides of the `docs` folder as HTML: which there are, and what links of theirs lead to. Nothing outside is read.

The guides are part of the distribution, so their Markdown is trusted; HTML in it is still shown as text.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from django.conf import settings
from django.utils.html import escape
from markdown_it import MarkdownIt
from markdown_it.token import Token

FOLDER: Final[Path] = settings.FILES / "docs"
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_LOCAL: Final = re.compile(r"(?:docs/)?([a-z0-9-]+)\.md(#[^?]*)?")


def guide_names() -> list[str]:
    """The names of all guides."""
    return sorted(file.stem for file in FOLDER.glob("*.md"))


def start_guides() -> list[dict[str, str]]:
    """The start page of each role, and the commonest tasks step by step."""
    starts = [name for name in guide_names() if name.startswith("start-")]
    return [listed_guide(name) for name in (*starts, "how-to") if name in guide_names()]


def listed_guide(name: str) -> dict[str, str]:
    """A guide as lists of guides link it."""
    return {"name": name, "title": guide_title(name)}


def guide_title(name: str) -> str:
    """The heading of a guide."""
    found = _TITLE.search(_text(name))
    return found[1] if found else name


@cache
def guide_html(name: str) -> str:
    """A guide as HTML. Links to other guides stay within them; of other files and pictures only the words are left."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    # What is wider than the page scrolls by itself, by the keyboard too.
    reader.renderer.rules |= {  # type: ignore[attr-defined]
        "table_open": lambda *_: (
            '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table class="table">'
        ),
        "table_close": lambda *_: "</table></div>",
        "fence": lambda tokens, place, *_: (
            f'<pre tabindex="0" aria-label="Example">{escape(tokens[place].content)}</pre>'
        ),
    }
    tokens = reader.parse(_text(name))
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[place + 1].content))
        elif token.type == "inline":
            token.children = _own_links(token.children or [])
    return str(reader.renderer.render(tokens, reader.options, {}))


def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def _own_links(tokens: list[Token]) -> list[Token]:
    kept: list[Token] = []
    opened: list[bool] = []
    for token in tokens:
        if token.type == "image":
            kept.append(Token("text", "", 0, content=token.content))
            continue
        if token.type == "link_open":
            opened.append(_keep_link(token))
            if not opened[-1]:
                continue
        elif token.type == "link_close" and not opened.pop():
            continue
        kept.append(token)
    return kept


def _keep_link(token: Token) -> bool:
    """Point a link to the page of its guide; return False for one that leads to another file of the distribution."""
    href = str(token.attrGet("href") or "")
    if href.startswith(("https://", "#")):
        return True
    found = _LOCAL.fullmatch(href)
    if found is None or not (FOLDER / f"{found[1]}.md").is_file():
        return False
    token.attrSet("href", f"{found[1]}{found[2] or ''}")
    return True


def _anchor(heading: str) -> str:
    """The anchor of a heading, as repositories on the web make it."""
    return re.sub(r"[^\w\- ]", "", heading.casefold()).replace(" ", "-")
