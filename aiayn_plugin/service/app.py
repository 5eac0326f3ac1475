"""The web application of one model: its routes and responses."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..attention_page.maps import compute_maps, encode_lines, translate
from ..attention_page.page import attention_page, check_length, check_size
from ..errors import InputError
from ..html_page import asset, language_name, language_pair, page
from ..inference.translator import Translation, Translator
from ..text.lines import escape_unprintable
from .about import describe_model
from .batcher import Batcher, QueueFull
from .request_body import CLOSE, read_json_body, until_disconnect
from .schema import Limits, parse_request

logger = logging.getLogger("aiayn serve")

#: A batch's kind is its number of translations per sentence, or this for attention pages.
ATTENTION_PAGE = 0
#: Browsers must not guess content types, embed pages in frames, send referrers, or cache.
SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


class Service:
    """The request handlers of one model."""

    def __init__(
        self, name: str, translators: Sequence[Translator], limits: Limits, batch_size: int
    ) -> None:
        """translators: the first keeps one translation of a sentence, the second two, …"""
        self.name, self.limits = name, limits
        self.translators = translators
        directory = self.translators[0].directory
        settings = directory.pipeline.settings
        self.about = {"model": name, "source": settings.source_lang, "target": settings.target_lang}
        self.languages = language_pair(*settings.languages)
        description = describe_model(directory.data, settings, limits.characters)
        source = language_name(settings.source_lang)
        codes = [lang.replace("_", "-") for lang in settings.languages]
        self.page_data = {"model": name, "source": source, "codes": codes, **description}
        self.batcher = Batcher(
            self._process,
            limits.queued,
            # Attention pages are large: they are built one at a time.
            lambda kind: 1 if kind == ATTENTION_PAGE else batch_size,
        )

    async def translate(self, request: Request) -> Response:
        """POST /translate: JSON with sentences in, JSON with translations out."""
        body = await read_json_body(request, self.limits.body_bytes)
        sentences, nbest = parse_request(body, self.limits)
        request.state.sentences = len(sentences)
        results = await until_disconnect(request, self.batcher.submit(sentences, nbest))
        return JSONResponse({"translations": [_as_json(best, nbest) for best in results]})

    async def attention(self, request: Request) -> Response:
        """GET /attention?text=…: the attention page of a sentence and its translation."""
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise HTTPException(403, "cross-site requests are rejected: open the URL directly")
        text = request.query_params.get("text", "")
        self.limits.check(text, "the sentence")
        request.state.sentences = 1
        [html] = await until_disconnect(request, self.batcher.submit([text], ATTENTION_PAGE))
        return HTMLResponse(html)

    async def health(self, request: Request) -> Response:
        """GET /health: the model, and the number of queued sentences."""
        return JSONResponse({"status": "ok", **self.about, "queued": self.batcher.queued})

    async def page(self, request: Request) -> Response:
        """GET /: the translation page."""
        body = asset("service/translate.html")
        html = page(self.languages, body, self.page_data, "service/translate", fetches=True)
        return HTMLResponse(html)

    def _process(self, lines: list[str], kind: int) -> Sequence[Any]:
        """Return the translations of each line, or its attention page."""
        if kind == ATTENTION_PAGE:
            return [self._attention_page(line) for line in lines]
        translate = self.translators[kind - 1].translate_nbest
        with _blame_server():
            return translate(lines, progress=self.batcher.stop_if_abandoned)

    def _attention_page(self, line: str) -> str:
        translator = self.translators[0]
        [source] = encode_lines(translator, [line])
        check_length(source, "line 1")
        with _blame_server():
            [sentence] = translate(translator, [source])
        check_length(sentence.target, "the translation")
        layers: Any = translator.model.encoder.layers
        check_size([sentence], len(layers), layers[0].self_attention.h)
        maps = [compute_maps(translator, sentence)]
        about = f"{self.name}: {self.languages}"
        return attention_page(maps, translator.pipeline, self.name, about, home="./")


@contextlib.contextmanager
def _blame_server() -> Iterator[None]:
    """Turn an InputError, which would blame the client, into a RuntimeError.

    Sentences that passed the checks cannot cause it; the model or a lack of memory can.
    """
    try:
        yield
    except InputError as error:
        raise RuntimeError(str(error)) from error


def _as_json(translations: Sequence[Translation], nbest: int) -> dict[str, Any]:
    """Return the best translation of a sentence, and all of them if several were requested."""
    candidates = [{"text": each.text, "score": each.score} for each in translations]
    return candidates[0] if nbest == 1 else {**candidates[0], "nbest": candidates}


def application(service: Service, hosts: Sequence[str] | None, url: str) -> ASGIApp:
    """Return the ASGI application of a service, which logs the URL when it is ready.

    hosts: the allowed values of the Host header; None: any.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        batches = asyncio.create_task(service.batcher.run())
        logger.info("%s listens on %s; press Ctrl-C to stop", service.name, url)
        yield
        batches.cancel()

    app = Starlette(
        routes=[
            Route("/", service.page),
            Route("/translate", service.translate, methods=["POST"]),
            Route("/attention", service.attention),
            Route("/health", service.health),
        ],
        exception_handlers=dict.fromkeys((HTTPException, InputError, Exception), _error_response),
        lifespan=lifespan,
    )
    return _Gateway(app, hosts)


async def _error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    if isinstance(error, QueueFull):
        return JSONResponse({"error": str(error)}, 429, {"Retry-After": "1"})
    if isinstance(error, InputError):
        return JSONResponse({"error": str(error)}, 400)
    # The server logs the exception.
    return JSONResponse({"error": "internal error: see the log of the service"}, 500)


class _Gateway:
    """Logs each request, adds the security headers, and rejects unsafe requests.

    The host check prevents DNS rebinding: a page whose domain resolves to this computer could
    otherwise read the responses, but it sends its own domain as Host.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, more_body = time.perf_counter(), 500, True
        state = scope.setdefault("state", {})

        async def receive_body() -> Message:
            nonlocal more_body
            message = await receive()
            more_body = message.get("more_body", False)
            return message

        async def send_response(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SECURITY_HEADERS.items()]
            elif status >= 400 and more_body:
                # Closing a connection with unread input resets it, and the client may lose the
                # error. So send it, read the rest of the body, and only then end the response.
                await send({**message, "more_body": True})
                while more_body:
                    await receive_body()
                message = {"type": "http.response.body"}
            await send(message)

        try:
            await (self._reject(Request(scope)) or self.app)(scope, receive_body, send_response)
        finally:
            host, _ = scope.get("client") or ("?", 0)
            logger.info(
                "%s %s %d%s, %.3f s, from %s",
                scope["method"],
                escape_unprintable(scope["path"])[:100],
                status,
                f", sentences: {state['sentences']:,}" if "sentences" in state else "",
                time.perf_counter() - start,
                escape_unprintable(host)[:100],
            )

    def _reject(self, request: Request) -> Response | None:
        """Return the error response to an unsafe request."""
        if {"content-length", "transfer-encoding"}.issubset(request.headers):
            # A proxy in front may disagree on where such a request ends (RFC 9112, §6.3).
            message = "Content-Length and Transfer-Encoding are mutually exclusive: send only one"
            return JSONResponse({"error": message}, 400, CLOSE)
        if request.scope["path"] == "/health":  # probes send the machine's address, or no Host
            return None
        host = request.headers.get("host", "").lower()
        name, colon, port = host.rpartition(":")
        if self.hosts is None or (name if colon and port.isdigit() else host) in self.hosts:
            return None
        return JSONResponse({"error": "unknown host name: allow it with --allow-host"}, 421)
