package delayqotel_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	delayq "github.com/delayq/delayq/clients/go"
	"github.com/delayq/delayq/clients/go/delayqotel"
	"github.com/delayq/delayq/clients/go/delayqtest"
)

func TestAnAttemptIsLinkedToItsSender(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	queue := delayqtest.New(t)
	delayqotel.Instrument(queue.App)
	var within trace.SpanContext
	delayq.Handle(queue.App, "a", func(ctx context.Context, _ int) error {
		within = trace.SpanContextFromContext(ctx)
		return delayq.Dead(errors.New("no van"))
	})
	ctx, request := otel.Tracer("test").Start(context.Background(), "request")
	for _, options := range [][]delayq.Option{nil, {delayq.ID("own")}} {
		if _, err := queue.App.Send(ctx, "a", 1, options...); err != nil {
			t.Fatal(err)
		}
	}
	request.End()
	queue.Advance(0)
	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatal(ended)
	}
	sender, linked, own := ended[0].SpanContext(), ended[1], ended[2]
	switch {
	case len(linked.Links()) != 1 || linked.Links()[0].SpanContext.SpanID() != sender.SpanID():
		t.Error(linked.Links())
	case linked.SpanContext().TraceID() == sender.TraceID(), linked.SpanKind() != trace.SpanKindConsumer:
		t.Error(linked)
	case linked.Status().Code != codes.Error, linked.Name() != "process a":
		t.Error(linked.Status(), linked.Name())
	case len(own.Links()) != 0, own.SpanContext().SpanID() != within.SpanID():
		t.Error(own.Links(), within)
	}
}
