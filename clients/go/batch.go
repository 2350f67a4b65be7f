package delayq

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
)

// Batch is many tasks of any types, and one more that is created once all of them have ended.
type Batch struct {
	// Name is 1 to 64 visible ASCII characters. A task without an id gets the id NAME/INDEX.
	Name  string
	Tasks []Job
	// Then has no id of its own. Its handler gets the counts by [Task.Batch].
	Then Job
	// WaitForDead waits also while a task is dead.
	WaitForDead bool
}

// BatchReceipt is the proof that a batch was accepted.
type BatchReceipt struct {
	Name     string   `json:"name"`
	IDs      []string `json:"ids"`
	ThenType string   `json:"then_type"`
	ThenID   string   `json:"then_id"`
}

// BatchCounts is how many tasks a batch has, and how many of them have ended in which way.
type BatchCounts struct {
	Total     int `json:"total"`
	Done      int `json:"done"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`
	Expired   int `json:"expired"`
	Forgotten int `json:"forgotten"`
}

// BatchInfo is how far a batch is.
type BatchInfo struct {
	State   string       `json:"state"`    // waiting, cancelled, over or dead
	Counts  *BatchCounts `json:"counts"`   // nil once it is over: the task that follows has them
	IsExact bool         `json:"is_exact"` // false if not every task was looked at
}

// BatchCancelled is what the cancel of a batch has done.
type BatchCancelled struct {
	Changed int `json:"changed"` // tasks that never start
	Running int `json:"running"` // tasks that are asked to stop
}

// SendBatch sends a batch. Repeating the whole call creates nothing twice.
func (a *App) SendBatch(ctx context.Context, batch Batch) (*BatchReceipt, error) {
	tasks, err := lines(batch.Tasks, true)
	then, failed := lines([]Job{batch.Then}, true)
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return document[BatchReceipt](ctx, a, "PUT", map[string]any{
		"tasks": tasks, "then": then[0], "wait_for_dead": batch.WaitForDead,
	}, "batches", batch.Name)
}

// Batch shows how far a batch is.
func (a *App) Batch(ctx context.Context, name string) (*BatchInfo, error) {
	return document[BatchInfo](ctx, a, "GET", nil, "batches", name)
}

// CancelBatch cancels the tasks of a batch that have not ended. No task follows.
func (a *App) CancelBatch(ctx context.Context, name string) (*BatchCancelled, error) {
	return document[BatchCancelled](ctx, a, "DELETE", nil, "batches", name)
}

// document calls the server about something that is described by JSON.
func document[T any](ctx context.Context, a *App, method string, form map[string]any, place ...string) (*T, error) {
	r := request{method: method, path: place}
	if r.path[0] == "batches" {
		r.timeout = a.config.Timeout + large
	}
	if form != nil {
		r.body, _ = json.Marshal(form) // its values are JSON already
		r.header = map[string]string{"Content-Type": jsonType}
	}
	return fetch[T](ctx, a, r)
}

// Recurring is a task that is sent by a schedule, which the server keeps.
type Recurring struct {
	// ID is 1 to 64 of A-Z a-z 0-9 . _ - : and each occurrence is a task with the id ID@TIME.
	ID string
	// Job is what is sent; of its options it takes [Header] and [Group].
	Job Job
	// Every is five fields of cron, such as "0 9 * * MON-FRI", or whole seconds such as "15m".
	Every string
	// Zone is that of the five fields, such as Europe/Berlin. The default is UTC.
	Zone string
	// Paused sends no occurrences.
	Paused bool
}

// RecurringInfo is a recurring task as the server has it.
type RecurringInfo struct {
	Message
	ID      string            `json:"id"`
	Type    string            `json:"type"`
	Every   string            `json:"every"`
	Zone    string            `json:"zone,omitempty"`
	Headers map[string]string `json:"headers"`
	Paused  bool              `json:"paused"`
	NextAt  Time              `json:"next_at"` // zero while it is paused
	Since   Time              `json:"since"`   // when it was changed
}

// SetRecurring declares a recurring task or changes it.
func (a *App) SetRecurring(ctx context.Context, task Recurring) (*RecurringInfo, error) {
	forms, err := lines([]Job{task.Job}, true)
	if err != nil {
		return nil, err
	}
	form := maps.Clone(forms[0])
	if form["every"], form["paused"] = task.Every, task.Paused; task.Zone != "" {
		form["zone"] = task.Zone
	}
	return document[RecurringInfo](ctx, a, "PUT", form, "recurring", task.ID)
}

// PauseRecurring cancels the occurrence that waits and sends no further ones.
func (a *App) PauseRecurring(ctx context.Context, id string) (*RecurringInfo, error) {
	return document[RecurringInfo](ctx, a, "POST", nil, "recurring", id, "pause")
}

// ResumeRecurring ends a pause.
func (a *App) ResumeRecurring(ctx context.Context, id string) (*RecurringInfo, error) {
	return document[RecurringInfo](ctx, a, "POST", nil, "recurring", id, "resume")
}

// RemoveRecurring removes a recurring task and cancels the occurrence that waits.
func (a *App) RemoveRecurring(ctx context.Context, id string) error {
	_, err := a.call(ctx, request{method: "DELETE", path: []string{"recurring", id}}, nil)
	var refused *Error
	if errors.As(err, &refused) && refused.IsInDoubt && errors.Is(err, ErrNotFound) {
		return nil // an earlier try has removed it, and its answer was lost
	}
	return err
}

// ListRecurring lists the recurring tasks that were declared to the server.
func (a *App) ListRecurring(ctx context.Context) ([]RecurringInfo, error) {
	var all []RecurringInfo
	for query := (url.Values{"limit": {"128"}}); ; {
		var page struct {
			Recurring []RecurringInfo
			Next      string
		}
		_, err := a.call(ctx, request{method: "GET", path: []string{"recurring"}, query: query}, &page)
		if all = append(all, page.Recurring...); err != nil || page.Next == "" {
			return all, err
		}
		query.Set("cursor", page.Next)
	}
}
