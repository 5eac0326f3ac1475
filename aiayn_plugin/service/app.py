"""The service of one model: its addresses and what they answer."""

import contextlib
import logging
import time
from asyncio import create_task
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..attention_page.maps import attended, sentences
from ..attention_page.page import MOST_PIECES, attention_page
from ..errors import InputError
from ..html_page import asset, page
from ..inference.translator import Translation, Translator
from ..report.formatting import printable
from .batcher import Busy, Together
from .request_body import body_of, unless_gone
from .schema import Limits, Refusal, read_asked

logger = logging.getLogger("aiayn serve")

#: What is asked for: N translations of a sentence, or this, the page of its attention.
PAGE = 0
#: A browser takes an answer for what it says it is, and shows no page of it inside another's.
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


class Service:
    """What the addresses of one model answer."""

    def __init__(
        self, name: str, translator: Callable[[int], Translator], limits: Limits, together: int
    ) -> None:
        """translator: gives the one that keeps so many translations of a sentence.

        together: sentences that are translated at once.
        """
        self.name, self.limits = name, limits
        self.translators = [translator(nbest) for nbest in range(1, limits.nbest + 1)]
        self.settings = self.translators[0].pipeline.settings
        self.together: Together[str, Any] = Together(
            # Pages are large: each is sent before the next is made.
            self._answer,
            limits.waiting,
            lambda kind: 1 if kind == PAGE else together,
        )

    async def translate(self, request: Request) -> Response:
        """POST /translate: sentences in, translations out, both as JSON."""
        asked = read_asked(await body_of(request, self.limits.bytes), self.limits)
        request.state.sentences = len(asked.sentences)
        found = await unless_gone(request, self.together.ask(asked.sentences, asked.nbest))
        return JSONResponse({"translations": [_as_json(of, asked.nbest) for of in found]})

    async def attention(self, request: Request) -> Response:
        """GET /attention?text=…: the page of the attention in a sentence and its translation."""
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refusal(403, "another site's page asks for this: type the address yourself")
        text = request.query_params.get("text", "")
        self.limits.check(text, "the sentence")
        request.state.sentences = 1
        [found] = await unless_gone(request, self.together.ask([text], PAGE))
        return HTMLResponse(found)

    async def health(self, request: Request) -> Response:
        """GET /health: which model answers, and how many sentences wait."""
        return JSONResponse(
            {
                "status": "ok",
                "model": self.name,
                "source": self.settings.source_lang,
                "target": self.settings.target_lang,
                "waiting": self.together.waiting,
            }
        )

    async def page(self, request: Request) -> Response:
        """GET /: a page to type sentences into."""
        data = {
            "model": self.name,
            "source": self.settings.source_lang,
            "target": self.settings.target_lang,
        }
        body = asset("service/translate.html")
        return HTMLResponse(
            page(f"Translate: {self.name}", body, data, "service/translate", fetches=True)
        )

    def _answer(self, lines: list[str], kind: int) -> Sequence[Any]:
        """Return what is found for each line: its translations, or its page."""
        if kind == PAGE:
            return [self._attention_page(line) for line in lines]
        translate = self.translators[kind - 1].translate_nbest
        try:
            return translate(lines, progress=self.together.check_wanted)
        except InputError as error:  # of the model or the memory: no sentence is to blame
            raise RuntimeError(str(error)) from error

    def _attention_page(self, line: str) -> str:
        translator = self.translators[0]
        shown = [
            attended(translator, sentence)
            for sentence in sentences(translator, [line], most=MOST_PIECES)
        ]
        about = f"{self.settings.source_lang} to {self.settings.target_lang}"
        return attention_page(shown, translator.pipeline, self.name, about)


def _as_json(found: Sequence[Translation], nbest: int) -> dict[str, Any]:
    """Return the best translation of a sentence, and all of them if more than one is wanted."""
    every = [{"text": one.text, "score": one.score} for one in found]
    return every[0] if nbest == 1 else {**every[0], "nbest": every}


def application(
    service: Service, hosts: Sequence[str] | None, ready: Callable[[], None]
) -> ASGIApp:
    """Return the application of a service.

    hosts: the names by which it may be called; None: any. ready: called once it answers.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        answering = create_task(service.together.run())
        ready()
        yield
        answering.cancel()

    app = Starlette(
        routes=[
            Route("/", service.page),
            Route("/translate", service.translate, methods=["POST"]),
            Route("/attention", service.attention),
            Route("/health", service.health),
        ],
        exception_handlers={HTTPException: _refuse, InputError: _refuse, Exception: _fail},
        lifespan=lifespan,
    )
    return _Logged(app, hosts)


async def _refuse(request: Request, error: Any) -> Response:
    """Answer what cannot be done with one line that says why. InputError is a ValueError."""
    status = getattr(error, "status", getattr(error, "status_code", 400))
    headers = dict(getattr(error, "headers", None) or {})
    if status in (408, 413, 415):  # the rest of the body is not read
        headers = {"Connection": "close"}
    if isinstance(error, Busy):
        status, headers = 429, {"Retry-After": "1"}
    return JSONResponse({"error": str(getattr(error, "detail", error))}, status, headers)


async def _fail(request: Request, error: Exception) -> Response:
    """Answer that the service is to blame; its log has the error."""
    return JSONResponse({"error": "the service failed; its log says why"}, 500)


class _Logged:
    """Writes a line a request, and refuses those that call the service by another's name.

    A page of a stranger's could have its name point to this computer, and a browser on it would let
    that page read the answers. It sends the stranger's name as Host.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begin, status = time.perf_counter(), 500
        state = scope.setdefault("state", {})

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        try:
            if self._known(Request(scope)):
                await self.app(scope, receive, sent)
            else:
                refusal = Refusal(421, "this service has another name: see --allow-host")
                await (await _refuse(Request(scope), refusal))(scope, receive, sent)
        finally:
            seconds, client = time.perf_counter() - begin, scope.get("client") or ("?", 0)
            of = f", sentences: {state['sentences']:,}" if "sentences" in state else ""
            logger.info(
                "%s %s %d%s, %.3f s, from %s",
                scope["method"],
                printable(scope["path"])[:100],
                status,
                of,
                seconds,
                printable(str(client[0]))[:100],
            )

    def _known(self, request: Request) -> bool:
        name = request.headers.get("host", "").lower()
        head, colon, port = name.rpartition(":")
        return self.hosts is None or (head if colon and port.isdigit() else name) in self.hosts
