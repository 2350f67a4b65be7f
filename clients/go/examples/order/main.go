// An order is cancelled half an hour after it was placed, unless it was paid.
package main

import (
	"context"
	"errors"
	"log"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

type Order struct {
	Number int `json:"order"`
}

var errNoShop = errors.New("the shop does not answer")

func cancel(ctx context.Context, order Order) error {
	task := delayq.FromContext(ctx)
	if task.Attempt == 1 {
		return delayq.RetryAfter(time.Second, errNoShop)
	}
	log.Println("cancelled order", order.Number, "in attempt", task.Attempt)
	return nil
}

func main() {
	app, err := delayq.New(delayq.Config{}) // DELAYQ_HTTP and DELAYQ_TOKEN
	if err != nil {
		log.Fatal(err)
	}
	delayq.Handle(app, "order.cancel", cancel, delayq.Concurrency(4), delayq.Retry{Max: 5})

	// The customer has two seconds here instead of half an hour.
	receipt, err := app.Send(context.Background(), "order.cancel", Order{7}, delayq.ID("order-7"), delayq.After(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	log.Println(receipt.ID, receipt.Outcome)
	if err := app.Run(context.Background()); err != nil { // until SIGTERM or Ctrl-C
		log.Fatal(err)
	}
}
