"""A web hook with Flask: `flask --app flask_hook run`."""

import os

from flask import Flask, Response, abort, request

from delayq import InvalidSignature, Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
app = Flask(__name__)


@app.post("/hooks/cancel")
def cancel() -> Response:
    try:
        task = webhook.verify(request.headers, request.get_data())
    except InvalidSignature as error:
        abort(401, error.detail)
    print("cancel", task.id, task.decode(), flush=True)
    return Response(status=204)
