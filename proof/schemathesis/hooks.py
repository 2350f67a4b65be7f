"""What Schemathesis cannot know by itself: lines of JSON, and where a target may be."""

import json

import schemathesis

SPANS = {"delay", "at", "expires_after", "expires_at", "lock_for", "after", "retry_after", "wait"}


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    tasks = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(task) for task in tasks).encode()


@schemathesis.deserializer("application/x-ndjson")
def last_line(ctx, response):
    """The document states the form of one line; an answer without lines has one of that form."""
    written = [line for line in response.content.splitlines() if line.strip()]
    return json.loads(written[-1]) if written else {"line": 0}


@schemathesis.hook("map_query")
def plain(ctx, query):
    """Random spans and times are refused, as are two that exclude each other: every other request
    has none of them, so that some get as far as the store."""
    if query and len(str(query)) % 2:
        return {name: value for name, value in query.items() if name not in SPANS}
    return query


@schemathesis.hook("map_body").apply_to(method="PUT", path_regex="/target$")
def target(ctx, body):
    """Of random targets none is ever set: what is shown of them would not be seen."""
    if isinstance(body, dict) and isinstance(body.get("http"), dict):
        others = {"grpc": None, "kafka": None, "service": None, "timeout": 1000, "concurrency": 1}
        spans = {"rate": {"pushes": 1, "per": "1m"}, "retry": {"attempts": 2, "wait": 10}}
        return {"http": {"url": "https://example.org/hook"}, **others, **spans}
    return body
