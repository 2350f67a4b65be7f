package delayq

import (
	"context"
	"encoding/json"
	"time"

	"github.com/delayq/delayq/clients/go/internal/hook"
)

// The package delayqtest runs attempts one by one, without a clock.
func init() {
	hook.Virtual = func(app any) { app.(*App).isVirtual = true }
	hook.Handles = func(app any, taskType string) bool {
		a := app.(*App)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.workers[taskType] != nil
	}
	hook.Attempt = func(app any, claimed []byte) error {
		a, task, base := app.(*App), new(Task), context.Background()
		if err := json.Unmarshal(claimed, task); err != nil {
			return err
		}
		a.mu.Lock()
		w := a.workers[task.Type]
		a.mu.Unlock()
		p := &pool{app: a, stopping: base, handlers: base, abandoned: base, reports: base}
		p.attempt(&attempt{app: a, w: w, task: task, until: time.Now().Add(w.lock)})
		return nil
	}
}
