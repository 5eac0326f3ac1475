"""`aiayn serve`: translations over HTTP."""

import argparse
import logging

from ..errors import InputError
from ..inference.translator import Translator
from ..paper import SearchSettings
from . import stream

HELP = "translate over HTTP, with a page to type into"
DESCRIPTION = (
    'Answer POST /translate, with JSON such as {"text": "A man sleeps."} or {"text": ["…", '
    '"…"], "nbest": 2}, until Ctrl-C or SIGTERM. What arrives together is translated together. '
    "At / is a page to type sentences into, at /health whether the service is well."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn serve`."""
    stream.add_search_options(parser, SearchSettings())
    option = parser.add_argument
    option(
        "--host",
        default="127.0.0.1",
        help="address to listen at; 0.0.0.0 is every one of this computer's, and then anyone "
        "who reaches it can ask (default: %(default)s)",
    )
    option("--port", type=int, default=8000, help="0: any free one (default: %(default)s)")
    option(
        "--allow-host",
        metavar="NAME",
        nargs="+",
        default=[],
        help="further names by which the service is called, such as that of a proxy",
    )
    option(
        "--batch-size",
        metavar="N",
        type=int,
        default=64,
        help="sentences that are translated at once (default: %(default)s)",
    )
    option(
        "--max-length",
        metavar="N",
        type=int,
        default=2000,
        help="characters of a sentence; a longer one is refused (default: %(default)s)",
    )
    option(
        "--max-waiting",
        metavar="N",
        type=int,
        default=1000,
        help="sentences that may wait; a request beyond it is refused (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Serve a model. Raises InputError or OSError for an unusable model or address."""
    for name in ("beam", "batch_size", "max_length", "max_waiting"):
        if getattr(args, name) < 1:
            raise InputError(f"--{name.replace('_', '-')} {getattr(args, name)} must be at least 1")
    try:
        from ..service import app, server
    except ModuleNotFoundError as error:
        raise InputError(f"aiayn serve needs {error.name}: pip install starlette uvicorn") from None

    limits = app.Limits(args.max_length, args.max_waiting, args.beam)
    listening = server.listen(args.host, args.port)
    with listening:
        translator = Translator.load(args.model, args.device, args.precision, args.max_tokens)

        def keeping(nbest: int) -> Translator:
            search = {"beam": args.beam, "lenpen": args.lenpen, "nbest": nbest}
            return Translator(translator.found, args.max_tokens, search)

        known = server.names(args.host, listening, args.allow_host)
        service = app.Service(args.model.resolve().name, keeping, limits, args.batch_size)
        # As fairseq's lines look, on standard error.
        logging.basicConfig(
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=logging.INFO,
            force=True,
        )
        where = server.address(listening)

        def ready() -> None:
            app.logger.info("%s answers at %s; Ctrl-C stops it", service.name, where)

        server.serve(app.application(service, known, ready), listening)
        app.logger.info("stopped")
