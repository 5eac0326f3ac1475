"""Self-contained HTML pages: no external files, and text never becomes markup."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

#: Okabe and Ito's colours (https://jfly.uni-koeln.de/color/), which colour-blind people can tell
#: apart, ordered so that the first four and the last four differ most. The yellow is darkened for
#: a light background. html_page.css defines the same colours, with four replaced on a dark one.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#56b4e9", "#cc79a7", "#e69f00", "#1a1a1a", "#806600")

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(title: str, body: str, data: Any = None, name: str = "", fetches: bool = False) -> str:
    """Return a page with a title (text), a body (HTML) and data for its script.

    name: path in this package of the page's style sheet and script, without .css and .js. Every
    page includes html_page.css; a page without data has no script. The script reads the data as
    JSON from the element "data". fetches: whether the script may send requests to the page's own
    server.
    """
    style = asset("html_page.css") + (asset(f"{name}.css") if name else "")
    script = asset(f"{name}.js") if name and data is not None else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The browser blocks other scripts and resources; form-action and base-uri, which default-src
    # does not cover, block form submission and a changed base URL.
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'" + "; connect-src 'self'" * fetches
    )
    return TEMPLATE.format(
        title=html.escape(title),
        body=body,
        style=style,
        script=script,
        policy=policy,
        data=embeddable_json(data),
    )


def language_name(code: str) -> str:
    """Return a language's English name, such as "German" for "de"; unknown codes unchanged."""
    from babel import Locale  # here, since only language names need it

    return Locale("en").languages.get(code.replace("-", "_"), code)


def language_pair(source: str, target: str) -> str:
    """Return the names of two languages: "English → German"."""
    return f"{language_name(source)} → {language_name(target)}"


def follow_scheme(markup: str) -> str:
    """Return markup with COLOURS replaced by html_page.css variables, for dark mode."""
    for number, colour in enumerate(COLOURS):
        markup = markup.replace(colour, f"var(--c{number})")
    return markup


def embeddable_json(data: Any) -> str:
    """Return JSON that cannot close its HTML element: `<` is written as \\u003c."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def asset(name: str) -> str:
    """Return a file of this package, such as "report/report.css"."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
