package delayq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Task is a task that a handler works on.
type Task struct {
	Message
	Type string `json:"type"`
	ID   string `json:"id"`
	// Attempt counts from 1. Attempts that were given back are not counted.
	Attempt int `json:"attempt"`
	// Fence grows with each lock of the task. A system that is written to can refuse a smaller one
	// than the last it has seen, and so the work of a worker that has lost its lock.
	Fence       int64             `json:"fence"`
	DueAt       Time              `json:"due_at"`
	SubmittedAt Time              `json:"submitted_at"`
	Headers     map[string]string `json:"headers"`
	LastError   string            `json:"last_error,omitempty"` // of the attempt before
	// Lock is what the server knows the attempt by.
	Lock string `json:"lock"`
	then []Job
}

// Group returns the label of the task's group, or "".
func (t *Task) Group() string { return t.Headers["group"] }

// Batch returns the counts of the batch that this task follows; all are 0 if it follows none.
func (t *Task) Batch() (counts BatchCounts) {
	_ = json.Unmarshal([]byte(t.Headers["delayq-batch"]), &counts)
	return counts
}

// Then sends a further task with the end of this one: once, and only if the handler succeeds. One
// without an [ID] gets an id that is made of this task. Not for several goroutines at once.
func (t *Task) Then(taskType string, message any, options ...Option) {
	t.then = append(t.then, NewJob(taskType, message, options...))
}

func (t *Task) String() string { return fmt.Sprintf("%s %s (attempt %d)", t.Type, t.ID, t.Attempt) }

// LogValue groups type, id and attempt in a line of log/slog.
func (t *Task) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", t.Type), slog.String("id", t.ID), slog.Int("attempt", t.Attempt))
}

type taskKey struct{}

// FromContext returns the task that a handler works on, and nil outside of a handler.
func FromContext(ctx context.Context) *Task {
	task, _ := ctx.Value(taskKey{}).(*Task)
	return task
}

// Middleware runs around every attempt. It calls next once, and returns its error or another one.
type Middleware func(ctx context.Context, task *Task, next func(context.Context) error) error

// Around has every attempt run within this middleware. The first one added is the outermost.
func (a *App) Around(middleware Middleware) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.around = append(a.around, middleware)
}

// HandleOption is [Concurrency], [Lock] or [Retry].
type HandleOption interface{ apply(*worker) }

// Concurrency is how many handlers of a type run at a time in this process. The default is 1.
type Concurrency int

// Lock is how long a task belongs to its worker if nothing is heard of it: 1 s to 24 h, and 60 s by
// default. It is extended in the background while the handler runs.
type Lock time.Duration

// Retry is how failed attempts are repeated. Without it, the policy of the type at the server
// decides.
type Retry struct {
	// Max is the number of attempts after which a task is dead, the first included; 5 by default.
	Max int
	// Wait is that before the second attempt, doubled each time up to MaxWait. The defaults are 1 s
	// and 10 min. Each wait is up to 10 % shorter or longer.
	Wait, MaxWait time.Duration
	// Fixed: all waits are equal.
	Fixed bool
}

func (c Concurrency) apply(w *worker) { w.places = int(c) }
func (l Lock) apply(w *worker)        { w.lock = time.Duration(l) }
func (r Retry) apply(w *worker)       { w.retry = &r }

// after is the wait after the failure of this attempt.
func (r Retry) after(attempt int) time.Duration {
	wait, longest := positive(r.Wait, time.Second), positive(r.MaxWait, 10*time.Minute)
	for n := 1; n < attempt && wait < longest && !r.Fixed; n++ {
		wait *= 2
	}
	return min(wait, longest)
}

func positive[N int | time.Duration](given, usual N) N {
	if given > 0 {
		return given
	}
	return usual
}

// worker is a type with its handler.
type worker struct {
	taskType string
	places   int
	lock     time.Duration
	retry    *Retry
	run      func(context.Context, *Task) (any, error)
}

// Handle has tasks of a type run by handler, once [App.Run] or [App.Work] runs. The message is
// decoded from JSON into M; with a []byte it comes as it is. A message that cannot be decoded makes
// its task dead. It panics if the type has a handler already, or an option is out of range.
//
// The handler returns nil if the work is done. An error fails the attempt, see [Retry], [Dead],
// [RetryAfter] and [Later]; a panic does so, too. Its context ends with the cause [ErrCancelled],
// [ErrLockLost] or [ErrStopping], see context.Cause. [FromContext] has the task.
func Handle[M any](app *App, taskType string, handler func(ctx context.Context, message M) error, options ...HandleOption) {
	HandleReply(app, taskType, func(ctx context.Context, message M) (any, error) {
		return nil, handler(ctx, message)
	}, options...)
}

// HandleReply is [Handle] for a handler whose first result is the reply to senders that [Wait]. It is
// sent as JSON, a []byte as it is; a nil interface is no reply.
func HandleReply[M, R any](app *App, taskType string, handler func(ctx context.Context, message M) (R, error), options ...HandleOption) {
	w := &worker{taskType: taskType, places: 1, lock: time.Minute}
	w.run = func(ctx context.Context, task *Task) (any, error) {
		var message M
		if raw, ok := any(&message).(*[]byte); ok {
			*raw = task.Raw()
		} else if err := task.Decode(&message); err != nil {
			return nil, Dead(fmt.Errorf("the message cannot be decoded as %T: %w", message, err))
		}
		return handler(ctx, message)
	}
	for _, option := range options {
		option.apply(w)
	}
	app.mu.Lock()
	defer app.mu.Unlock()
	if app.workers[taskType] != nil || w.places < 1 || w.lock < time.Second || w.lock > 24*time.Hour {
		panic("delayq: " + taskType + ": one handler, a concurrency of 1 or more, and a lock of 1s to 24h")
	}
	app.workers[taskType] = w
	if app.pool != nil {
		app.pool.start(w)
	}
}

// handled is what a handler left.
type handled struct {
	ctx   context.Context // within the middleware
	reply any
	err   error
}

// invoke runs the handler within the middleware. A panic is an error.
func (a *App) invoke(ctx context.Context, w *worker, task *Task, ended chan<- handled) {
	result := handled{err: errors.New("the handler has ended its goroutine")}
	defer func() {
		if what := recover(); what != nil {
			a.config.Logger.Error("a handler has panicked", "task", task, "panic", what, "stack", string(debug.Stack()))
			result.err = fmt.Errorf("panic: %v", what)
		}
		ended <- result
	}()
	a.mu.Lock()
	around := a.around
	a.mu.Unlock()
	next := func(ctx context.Context) (err error) {
		result.ctx = ctx
		result.reply, err = w.run(ctx, task)
		return err
	}
	for i := len(around) - 1; i >= 0; i-- {
		inner, middleware := next, around[i]
		next = func(ctx context.Context) error { return middleware(ctx, task, inner) }
	}
	result.err = next(ctx)
}
