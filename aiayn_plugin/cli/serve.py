"""Translate over HTTP, with a web page.

Accepts POST /translate with JSON such as {"text": "A man sleeps."} or {"text": ["…", "…"], "nbest":
2}, until Ctrl-C or SIGTERM. Concurrent requests are batched. GET / serves a web page for
translating, GET /health a health check.
"""

import argparse
import logging
import signal
import sys

from ..errors import InputError
from ..inference.translator import Translator
from ..paper import SearchSettings
from ..text.lines import escape_unprintable
from . import options


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_search(parser, SearchSettings())
    options.add_batching(parser)
    options.add_engine(parser)
    add = parser.add_argument
    host_help = "address to listen on; 0.0.0.0: every interface, open to anyone on the network"
    add("--host", default="127.0.0.1", help=host_help)
    add("--port", type=int, default=8000, help="port; 0: any free port")
    names_help = "further host names to accept, such as a proxy's (default with 0.0.0.0: any name)"
    add("--allow-host", metavar="NAME", nargs="+", default=[], help=names_help)
    add("--batch-size", metavar="N", type=int, default=64, help="sentences per batch")
    length_help = "maximum characters per sentence; a longer one is rejected"
    add("--max-length", metavar="N", type=int, default=2000, help=length_help)
    queued_help = "maximum sentences in the queue; a request beyond it is rejected"
    add("--max-queued", metavar="N", type=int, default=1000, help=queued_help)


def run(args: argparse.Namespace) -> None:
    """Serve a model. Raises InputError or OSError for an unusable model or address."""
    options.check_positive(args, "beam", "batch_size", "max_length", "max_queued")
    try:
        from ..service import app, server
    except ModuleNotFoundError as error:
        raise InputError(
            f"aiayn serve needs {error.name}: pip install '.[serve]' in the project's root"
        ) from None

    limits = app.Limits(args.max_length, args.max_queued, args.beam)
    with server.listen(args.host, args.port) as listener:
        # The first process of a container ignores SIGTERM without a handler.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        names = ("device", "precision", "max_tokens", "user_dir", "engine")
        model = Translator.load(args.model, **{name: getattr(args, name) for name in names})
        search = {"max_tokens": args.max_tokens, "beam": args.beam, "lenpen": args.lenpen}
        translators = [
            Translator(model.directory, model.loaded, nbest=nbest, **search)
            for nbest in range(1, args.beam + 1)
        ]
        name = escape_unprintable(args.model.resolve().name)
        service = app.Service(name, translators, limits, args.batch_size)
        logging.basicConfig(  # in the format of fairseq's log
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=logging.INFO,
            force=True,
        )
        url = server.base_url(listener)
        hosts = server.allowed_hosts(args.host, listener, args.allow_host)
        server.serve(app.application(service, hosts, url), listener)
        app.logger.info("stopped")
