"""One self-contained HTML page: nothing is fetched, and no text of a user becomes markup."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

#: Colours that colour-blind people can tell apart: Okabe and Ito's
#: (https://jfly.uni-koeln.de/color/), in an order in which those of the first four, and of the last
#: four, differ most. Their yellow is darker here, for a light page. html_page.css has the same as
#: variables, and others for the last two on a dark page.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#56b4e9", "#cc79a7", "#e69f00", "#1a1a1a", "#806600")

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">{again}
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


def page(
    title: str, body: str, data: Any = None, name: str = "", refresh: int = 0, fetches: bool = False
) -> str:
    """Return a page: its title (text), its body (HTML), and data for its script.

    name: path of the page's own style sheet and script in this package, without .css and .js. Every
    page has html_page.css, and one without data has no script. The script finds the data as JSON in
    the element "data". refresh: seconds after which the browser opens the page anew; 0: never.
    fetches: whether the script may ask the address that the page came from.
    """
    style = asset("html_page.css") + (asset(f"{name}.css") if name else "")
    script = asset(f"{name}.js") if name and data is not None else ""
    again = f'\n<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    # The browser itself refuses whatever else a page might be made to run or to fetch.
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src '{_sha256(script)}'" + "; connect-src 'self'" * fetches
    )
    return TEMPLATE.format(
        title=html.escape(title),
        body=body,
        style=style,
        script=script,
        policy=policy,
        again=again,
        data=as_json(data),
    )


def as_json(data: Any) -> str:
    """Return JSON that cannot end the element that it stands in: `<` is \\u003c there."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def asset(name: str) -> str:
    """Return a file of this package, such as "report/report.css", to be embedded in a page."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _sha256(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
