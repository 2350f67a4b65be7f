// Package delayqotel carries the trace context of OpenTelemetry from the send of a task to its
// handler. It is a module of its own, so that the client itself depends on nothing.
//
//	delayqotel.Instrument(app)
package delayqotel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	delayq "github.com/delayq/delayq/clients/go"
)

// Option is an option of [Instrument].
type Option func(*options)

type options struct{ ownIDs bool }

// WithOwnIDs sends the trace context also with tasks whose id the sender has chosen. A task is
// recognised by its headers, too: sent again within another span, it is another task, and so a
// conflict. Use it if no id is ever sent a second time.
func WithOwnIDs() Option { return func(o *options) { o.ownIDs = true } }

// Instrument sends the headers traceparent and tracestate with tasks, and runs every handler within a
// span of kind consumer, which begins a trace of its own with a link to the span of the sender. The
// tracer is that of otel.GetTracerProvider.
func Instrument(app *delayq.App, apply ...Option) {
	var chosen options
	for _, one := range apply {
		one(&chosen)
	}
	format := propagation.TraceContext{}
	app.OnSend(func(ctx context.Context, job *delayq.Job) {
		if job.ID() != "" && !chosen.ownIDs {
			return
		}
		carrier := propagation.MapCarrier{}
		format.Inject(ctx, carrier)
		for name, value := range carrier {
			delayq.Header(name, value)(job)
		}
	})
	app.Around(func(ctx context.Context, task *delayq.Task, next func(context.Context) error) error {
		sender := trace.SpanContextFromContext(format.Extract(context.Background(), propagation.MapCarrier(task.Headers)))
		start := []trace.SpanStartOption{
			trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
				attribute.String("messaging.system", "delayq"), attribute.String("messaging.destination.name", task.Type),
				attribute.String("messaging.message.id", task.ID), attribute.Int("delayq.attempt", task.Attempt),
			),
		}
		if sender.IsValid() {
			start = append(start, trace.WithLinks(trace.Link{SpanContext: sender}))
		}
		tracer := otel.Tracer("github.com/delayq/delayq/clients/go/delayqotel")
		ctx, span := tracer.Start(ctx, "process "+task.Type, start...)
		defer span.End()
		err := next(ctx)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		return err
	})
}
