import type { Context } from "./context.js";

type Api = typeof import("@opentelemetry/api");

let api: Api | undefined;

/** Resolves once OpenTelemetry's API is loaded, if it is installed. @internal */
export const tracingReady: Promise<void> = import("@opentelemetry/api").then((found) => void (api = found), () => {});

/** The trace context of the current span, as headers of a task. @internal */
export function traceHeaders(): Record<string, string> {
  if (!api) return {};
  const carrier: Record<string, string> = {};
  api.propagation.inject(api.context.active(), carrier);
  const { traceparent, tracestate } = carrier;
  return { ...(traceparent && { traceparent }), ...(traceparent && tracestate && { tracestate }) };
}

/** Runs an attempt in a consumer span, which is linked to the span that sent the task. @internal */
export async function traced(cx: Context, attempt: () => Promise<unknown>): Promise<unknown> {
  if (!api) return attempt();
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, propagation, trace } = api;
  const sender = trace.getSpanContext(propagation.extract(ROOT_CONTEXT, cx.headers));
  const options = {
    kind: SpanKind.CONSUMER,
    links: sender ? [{ context: sender }] : [],
    attributes: {
      "messaging.system": "delayq",
      "messaging.operation.type": "process",
      "messaging.destination.name": cx.type,
      "messaging.message.id": cx.id,
      "delayq.attempt": cx.attempt,
    },
  };
  return trace.getTracer("delayq").startActiveSpan(`process ${cx.type}`, options, ROOT_CONTEXT, async (span) => {
    try {
      return await attempt();
    } catch (error) {
      span.recordException(error instanceof Error ? error : String(error));
      span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
      throw error;
    } finally {
      span.end();
    }
  });
}
