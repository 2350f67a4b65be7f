import assert from "node:assert/strict";
import { test } from "node:test";
import { SpanKind, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { TestApp } from "delayq/testing";

test("an attempt is linked to the span that sent its task", async () => {
  const exporter = new InMemorySpanExporter();
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
  const app = new TestApp();
  const inside: (string | undefined)[] = [];
  app.task("traced", async (fails, cx) => {
    inside.push(trace.getActiveSpan()?.spanContext().traceId);
    if (fails) throw new Error("no van");
    cx.followUp("next", 1);
  });
  await trace.getTracer("test").startActiveSpan("request", async (span) => {
    await app.send("traced", false);
    await app.send("traced", true, { id: "own" });
    await app.sendAll([{ type: "many", message: 1 }]);
    span.end();
  });
  const [sent, own, many] = await app.tasks();
  const request = exporter.getFinishedSpans().find(({ name }) => name === "request")!.spanContext();
  assert.ok(sent!.headers.traceparent!.includes(request.traceId) && many!.headers.traceparent!.includes(request.traceId));
  assert.equal(own!.headers.traceparent, undefined);
  await app.advance("500ms");
  const attempts = exporter.getFinishedSpans().filter(({ name }) => name === "process traced");
  assert.equal(attempts.length, 2);
  const [first, second] = attempts;
  assert.equal(first!.kind, SpanKind.CONSUMER);
  assert.deepEqual(first!.links.map(({ context }) => context.spanId), [request.spanId]);
  assert.notEqual(first!.spanContext().traceId, request.traceId);
  assert.deepEqual([second!.links.length, second!.status.code, second!.events.length], [0, 2, 1]);
  assert.deepEqual(inside, attempts.map((span) => span.spanContext().traceId));
  const next = (await app.tasks("next"))[0]!;
  assert.ok(next.headers.traceparent!.includes(first!.spanContext().traceId));
});
