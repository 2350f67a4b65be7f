// A web hook: the server pushes tasks to it, so no worker polls.
package main

import (
	"log"
	"net/http"
	"os"

	delayq "github.com/delayq/delayq/clients/go"
)

func main() {
	webhook, err := delayq.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	cancel := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hook := delayq.HookFrom(r.Context())
		var order struct{ Order int }
		if err := hook.Decode(&order); err != nil {
			w.WriteHeader(http.StatusGone) // no further attempt
			return
		}
		log.Println("cancel", hook.ID, order.Order, "in attempt", hook.Attempt)
		w.WriteHeader(http.StatusNoContent)
	})
	http.Handle("/hooks/cancel", webhook.Middleware(cancel))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
