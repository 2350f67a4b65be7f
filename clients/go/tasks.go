package delayq

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"
)

// Limits of one request with many tasks.
const (
	maxLines     = 1000
	maxBulkBytes = 1 << 20
	// The server waits for at most 60 s; a shorter wait notices a dead connection earlier.
	maxWait = 30 * time.Second
	// A large request may take so much longer than others.
	large = 50 * time.Second
)

// Send sends a task. Without an [ID] it makes one, so the call is repeated safely while the server is
// away or its answer is lost. With [Wait] the receipt has the reply, and an error may come together
// with a receipt: the task was accepted, and the wait failed, such as with [ErrDead].
func (a *App) Send(ctx context.Context, taskType string, message any, options ...Option) (*Receipt, error) {
	job := a.ready(ctx, NewJob(taskType, message, options...), true)
	r, err := job.request()
	if err != nil {
		return nil, err
	}
	receipt, err := fetch[Receipt](ctx, a, r)
	if err == nil && job.wait > 0 {
		receipt.Reply, err = a.Reply(ctx, taskType, receipt.ID, job.wait)
	}
	return receipt, err
}

// Sent is what became of one job of [App.SendAll]: a receipt or an error.
type Sent struct {
	Receipt *Receipt
	Err     error
	line    []byte
}

// SendAll sends any number of tasks, and answers one result for each, in order. One that is refused
// does not stop the others; the error is that of the first. What is in doubt is repeated.
func (a *App) SendAll(ctx context.Context, jobs []Job) ([]Sent, error) {
	results, open := make([]Sent, len(jobs)), map[string][]*Sent{} // by type
	for i, job := range jobs {
		all, err := lines([]Job{a.ready(ctx, job, true)}, false)
		if results[i].Err = err; err == nil {
			results[i].line, results[i].Err = json.Marshal(all[0])
			open[job.Type] = append(open[job.Type], &results[i])
		}
	}
	var away *Error // the server was not reached within the patience
	for taskType, chunk := range open {
		for len(chunk) > 0 && away == nil {
			count, size := 1, len(chunk[0].line)
			for count < min(len(chunk), maxLines) && size+len(chunk[count].line) < maxBulkBytes {
				size += len(chunk[count].line) + 1
				count++
			}
			away = a.sendChunk(ctx, taskType, chunk[:count])
			chunk = chunk[count:]
		}
		for _, one := range chunk {
			notSent := *away
			one.Err, notSent.IsInDoubt = &notSent, false
		}
	}
	for i, result := range results {
		if result.Err != nil {
			return results, fmt.Errorf("job %d of %d: %w", i+1, len(jobs), result.Err)
		}
	}
	return results, nil
}

// sendChunk sends these lines, and those again that may succeed later, until the patience is over. It
// fails if there was no answer then.
func (a *App) sendChunk(ctx context.Context, taskType string, open []*Sent) *Error {
	deadline, isInDoubt := time.Now().Add(a.config.Patience), map[*Sent]bool{}
	r := request{method: "POST", path: []string{"types", taskType, "bulk"}}
	r.header, r.wait = map[string]string{"Content-Type": "application/x-ndjson"}, large
	for n := 0; len(open) > 0; n++ {
		r.body = nil
		for _, one := range open {
			r.body = append(append(r.body, one.line...), '\n')
		}
		got, failed := a.try(ctx, r, nil)
		answers, pause, again := json.NewDecoder(bytes.NewReader(got.body)), backoff(n), open[:0]
		for _, one := range open {
			var said struct {
				Receipt
				Problem json.RawMessage `json:"problem"`
			}
			err := failed
			if err == nil && answers.Decode(&said) != nil {
				err = unreached(fmt.Errorf("the answer ended early"), true)
			} else if err == nil && said.Problem != nil {
				err = problem(0, nil, said.Problem)
			}
			if one.Receipt, one.Err = &said.Receipt, nil; err == nil {
				continue
			}
			own := *err
			isInDoubt[one] = isInDoubt[one] || err.IsInDoubt
			own.IsInDoubt = isInDoubt[one]
			if one.Receipt, one.Err = nil, &own; own.IsRepeatable {
				again, pause = append(again, one), max(pause, own.RetryAfter)
			}
		}
		if open = again; len(open) > 0 && (time.Now().Add(pause).After(deadline) || sleep(ctx, pause) != nil) {
			return failed
		}
	}
	return nil
}

func task(method, taskType, id string, what ...string) request {
	return request{method: method, path: append([]string{"types", taskType, "tasks", id}, what...)}
}

// Cancel cancels a task: Cancelled if it never starts, or Running if it runs and is asked to stop. A
// task that has ended is [ErrConflict], an unknown one [ErrNotFound].
func (a *App) Cancel(ctx context.Context, taskType, id string) (Outcome, error) {
	var said struct{ Outcome Outcome }
	_, err := a.call(ctx, task("DELETE", taskType, id), &said)
	return said.Outcome, err
}

// Find looks a task up. One that is unknown, or was forgotten after its end, is [ErrNotFound].
func (a *App) Find(ctx context.Context, taskType, id string) (*TaskInfo, error) {
	return fetch[TaskInfo](ctx, a, task("GET", taskType, id))
}

// Reschedule moves a task that waits to another time, given by [After] or [At], and returns it.
func (a *App) Reschedule(ctx context.Context, taskType, id string, when Option) (time.Time, error) {
	r := task("POST", taskType, id, "reschedule")
	moved, err := NewJob(taskType, nil, when).request()
	r.query = moved.query
	return a.change(ctx, r, err)
}

// RunNow makes a task that waits due now.
func (a *App) RunNow(ctx context.Context, taskType, id string) (time.Time, error) {
	return a.change(ctx, task("POST", taskType, id, "run-now"), nil)
}

// Update replaces the message of a task that waits. Its due time stays.
func (a *App) Update(ctx context.Context, taskType, id string, message any) (time.Time, error) {
	r := task("PUT", taskType, id, "message")
	body, kind, err := encode(message)
	r.body, r.header = body, map[string]string{"Content-Type": kind}
	return a.change(ctx, r, err)
}

func (a *App) change(ctx context.Context, r request, err error) (time.Time, error) {
	var said struct {
		DueAt Time `json:"due_at"`
	}
	if err == nil {
		_, err = a.call(ctx, r, &said)
	}
	return said.DueAt.Time, err
}

// Reply waits for the end of a task, at most this long. It fails with [ErrDead], [ErrCancelled] or
// [ErrExpired] if the task ended without being done, and with [ErrNotFound] if it is unknown.
func (a *App) Reply(ctx context.Context, taskType, id string, wait time.Duration) (*Reply, error) {
	for n, end := 0, time.Now().Add(wait); ; n++ {
		r := task("GET", taskType, id, "reply")
		r.wait = min(max(time.Until(end), 0), maxWait)
		r.query = url.Values{"wait": {millis(r.wait)}}
		got, err := a.call(ctx, r, nil)
		switch {
		case err != nil:
			return nil, err
		case got.status == 204:
			return &Reply{State: StateDone}, nil
		case got.status != 202:
			return &Reply{State: StateDone, ContentType: got.kind, Body: got.body}, nil
		case a.isVirtual || time.Until(end) <= 0:
			return &Reply{State: StatePending}, nil
		}
		_ = sleep(ctx, min(backoff(n), time.Until(end))) // a server that shuts down does not wait
	}
}

// History returns the ended lives of a task, the latest first, if the server keeps a history.
func (a *App) History(ctx context.Context, taskType, id string) ([]Life, error) {
	var said struct{ Lives []Life }
	_, err := a.call(ctx, task("GET", taskType, id, "history"), &said)
	return said.Lives, err
}
