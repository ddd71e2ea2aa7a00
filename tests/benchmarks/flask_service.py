"""`POST /api/send` as one would write it with Flask and waitress: the sandbox's own domain behind another server.

A process of its own, which says its URL, username and api_key on standard output as `runner sandbox serve` does.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from flask import Flask, Response, jsonify, request
from waitress.server import create_server

from runner.sandbox.definition import read_send
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.refusals import Account

THREADS = 4
ACCOUNT = Account("bench", "bench")


def make_app(service: Service) -> Flask:
    """Put the application together; every send is committed before it is answered."""
    app = Flask(__name__)
    # One connection behind a lock: with one each, the threads would wait for SQLite's lock by sleeping.
    turn = threading.Lock()

    def send() -> Response:
        ACCOUNT.check(request.args)
        sent = read_send(request.get_data())
        with turn:
            guid = service.send(sent.definition, sent.phones, datetime.now(UTC))
        here = request.host_url
        return jsonify(
            project_launch_guid=guid,
            stats_url=f"{here}api/stats/{guid}/",
            results_url=f"{here}api/results?project_launch_guid={guid}",
        )

    app.add_url_rule("/api/send", view_func=send, methods=["POST"])
    return app


def main(db: Path) -> None:
    """Serve until the process is ended."""
    # It warns of every request that waits for a thread: here that is most of them.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    with closing(open_store(db)) as store:
        server = create_server(make_app(Service(store)), host="127.0.0.1", port=0, threads=THREADS)
        url = f"http://127.0.0.1:{server.effective_port}"
        sys.stdout.write(f"url: {url}\nusername: {ACCOUNT.username}\napi_key: {ACCOUNT.api_key}\n")
        sys.stdout.flush()
        server.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
