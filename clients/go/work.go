package delayq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// A handler that is told to stop has this long to return before its task is given back.
	lastMoment = 2 * time.Second
	// After that, the tasks that are left are given back within this time.
	lastReports = 5 * time.Second
	// The longest error that is reported, in characters.
	maxErrorText = 2000
	// The server hands out no more tasks at once.
	maxClaim = 128
)

// Run works until ctx ends or the process gets SIGTERM or SIGINT, and then stops as [App.Work] does.
// A second signal ends the process at once.
func (a *App) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return a.Work(ctx)
}

// Work runs the handlers until ctx ends, and returns nil after an orderly stop: no further tasks are
// claimed, running handlers have [Config.Grace] to finish, and the tasks of those that have not are
// given back, which uses up no attempt. The contexts of handlers have the values of ctx.
func (a *App) Work(ctx context.Context) error {
	p, base := &pool{app: a, stopping: ctx}, context.WithoutCancel(ctx)
	handlers, stopHandlers := context.WithCancelCause(base)
	abandoned, giveUp := context.WithCancel(base)
	reports, end := context.WithCancel(base)
	p.handlers, p.abandoned, p.reports = handlers, abandoned, reports
	defer end()
	defer giveUp()
	defer stopHandlers(ErrStopping)
	a.mu.Lock()
	if a.pool != nil || len(a.workers) == 0 {
		a.mu.Unlock()
		return refuse("there is no handler, or the app works already")
	}
	a.pool = p
	p.running.Add(1) // for Handle, which may add to it
	for _, w := range a.workers {
		p.start(w)
	}
	a.mu.Unlock()

	<-ctx.Done()
	a.mu.Lock()
	a.pool = nil
	a.mu.Unlock()
	p.running.Done()
	ended, over := context.WithCancel(base)
	go func() { p.running.Wait(); over() }()
	if sleep(ended, a.config.Grace) == nil {
		if stopHandlers(ErrStopping); sleep(ended, lastMoment) == nil {
			giveUp()
			_ = sleep(ended, lastReports)
		}
	}
	return nil
}

// pool is what works between the start and the end of Work.
type pool struct {
	app *App
	// In the order in which they end: no further claims; handlers are told to stop; their tasks are
	// given back whether they have returned or not; nothing is reported any more.
	stopping, handlers, abandoned, reports context.Context
	running                                sync.WaitGroup
}

func (p *pool) start(w *worker) {
	p.running.Add(1)
	go func() { defer p.running.Done(); p.loop(w) }()
}

// loop claims as many tasks as can start at once, until the pool stops.
func (p *pool) loop(w *worker) {
	log := p.app.config.Logger.With("type", w.taskType)
	free, freed, failures := w.places, make(chan struct{}, w.places), 0
	for {
		for free == 0 || len(freed) > 0 {
			select {
			case <-freed:
				free++
			case <-p.stopping.Done():
				return
			}
		}
		began, wait := time.Now(), time.Duration(0)
		tasks, err := p.claim(w, min(free, maxClaim))
		claimed := time.Now()
		for _, task := range tasks {
			free--
			p.running.Add(1)
			go func() {
				defer p.running.Done()
				defer func() { freed <- struct{}{} }()
				p.attempt(&attempt{app: p.app, w: w, task: task, until: began.Add(w.lock)})
			}()
		}
		if err == nil && failures > 0 {
			log.Info("tasks are claimed again")
			failures = 0
		}
		switch {
		case p.stopping.Err() != nil:
			return
		case err != nil:
			if failures == 0 {
				log.Warn("tasks cannot be claimed; it is tried again", "error", err)
			}
			wait, failures = max(err.RetryAfter, backoff(failures)), failures+1
		case len(tasks) == 0 && claimed.Sub(began) < time.Second:
			wait = 500 * time.Millisecond // the server shuts down, and does not wait
		}
		_ = sleep(p.stopping, wait)
	}
}

func (p *pool) claim(w *worker, limit int) ([]*Task, *Error) {
	var said struct{ Tasks []*Task }
	query := url.Values{"limit": {strconv.Itoa(limit)}, "wait": {millis(maxWait)}, "lock_for": {millis(w.lock)}}
	r := request{method: "POST", path: []string{"types", w.taskType, "claim"}, query: query, wait: maxWait}
	r.stop = p.stopping // closes the connection of a claim that waits, unless its answer is there
	_, err := p.app.try(p.reports, r, &said)
	return said.Tasks, err
}

// attempt is a task that is locked.
type attempt struct {
	app   *App
	w     *worker
	task  *Task
	mu    sync.Mutex
	until time.Time // the end of the lock, by the clock of this process
}

// attempt runs the handler of a task that was claimed just now, and reports how it ended.
func (p *pool) attempt(t *attempt) {
	if p.stopping.Err() != nil {
		_ = t.report(p.reports, release(0))
		return
	}
	log := p.app.config.Logger.With("task", t.task)
	// The claim has waited for long, or the process was stopped after the answer.
	if time.Until(t.until) < t.w.lock/2 {
		if _, err := t.extend(p.reports); err != nil {
			log.Warn("its lock may be lost; it is not started", "error", err)
			_ = t.report(p.reports, release(0))
			return
		}
	}
	ctx, stop := context.WithCancelCause(context.WithValue(p.handlers, taskKey{}, t.task))
	defer stop(nil)
	keeping, let := context.WithCancel(p.reports)
	defer let()
	go t.keep(keeping, stop)
	ended := make(chan handled, 1)
	go p.app.invoke(ctx, t.w, t.task, ended)
	var result handled
	select {
	case result = <-ended:
	case <-p.abandoned.Done():
		log.Warn("a handler has not returned; its task is given back")
		_ = t.report(p.reports, release(0))
		return
	}
	if !time.Now().Before(t.end()) {
		stop(ErrLockLost)
	}
	if context.Cause(ctx) == ErrLockLost {
		log.Warn("the lock was lost, so the end of the attempt is not reported")
		return
	}
	how, err := t.ending(ctx, result)
	if err == nil {
		err = t.report(p.reports, how)
	}
	if err != nil && how.what != "fail" { // such as a reply that is too long
		log.Warn("the end of an attempt is refused, so it has failed", "error", err)
		err = t.report(p.reports, t.failure(err))
	}
	if err != nil {
		log.Error("the end of an attempt cannot be reported", "error", err)
	}
}

// end is the end of the lock.
func (t *attempt) end() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// keep extends the lock every third of its time until ctx ends or the lock is lost, and tells the
// handler to stop if the task is to be cancelled.
func (t *attempt) keep(ctx context.Context, stop context.CancelCauseFunc) {
	for wait, failures := t.w.lock/3, 0; sleep(ctx, min(wait, time.Until(t.end()))) == nil; {
		if !time.Now().Before(t.end()) {
			stop(ErrLockLost)
			return
		}
		outcome, err := t.extend(ctx)
		switch {
		case err == nil:
			if wait, failures = t.w.lock/3, 0; outcome == "cancel_requested" {
				stop(ErrCancelled)
			}
		case err.Kind == "lock-lost":
			stop(ErrLockLost)
			return
		default:
			wait, failures = max(err.RetryAfter, backoff(failures)), failures+1
		}
	}
}

// extend extends the lock once.
func (t *attempt) extend(ctx context.Context) (outcome string, err *Error) {
	r, sent := t.request("extend"), time.Now()
	// Half of what is left, so that a connection that hangs does not cost the lock.
	r.timeout = min(t.app.config.Timeout, max(t.end().Sub(sent)/2, 500*time.Millisecond))
	r.query.Set("lock_for", millis(t.w.lock))
	var said struct{ Outcome string }
	if _, err = t.app.try(ctx, r, &said); err == nil {
		t.mu.Lock()
		t.until = sent.Add(t.w.lock)
		t.mu.Unlock()
	}
	return said.Outcome, err
}

func (t *attempt) request(what string) request {
	r := task("POST", t.w.taskType, t.task.ID, what)
	r.query = url.Values{"lock": {t.task.Lock}}
	return r
}

// report sends the end of an attempt until it is certain, for as long as the lock lasts and the
// patience beyond it. It fails if the end is refused.
func (t *attempt) report(ctx context.Context, how ending) error {
	r := t.request(how.what)
	for name, value := range how.query {
		r.query.Set(name, value)
	}
	r.body, r.header = how.body, map[string]string{"Content-Type": how.kind}
	r.patience = max(time.Until(t.end()), 0) + max(t.app.config.Patience, time.Millisecond)
	_, err := t.app.call(ctx, r, nil)
	var refused *Error
	if errors.Is(err, ErrLockLost) {
		t.app.config.Logger.Warn("the lock was lost before the end of the attempt arrived", "task", t.task)
		return nil
	} else if errors.As(err, &refused) && !refused.IsRepeatable && refused.Status/100 == 4 && refused.Status != 401 {
		return err
	} else if err != nil {
		t.app.config.Logger.Error("it is unknown whether the end of an attempt has arrived", "task", t.task, "error", err)
	}
	return nil
}

// ending is how an attempt is reported: done, done-then, fail or release.
type ending struct {
	what  string
	query map[string]string
	kind  string
	body  []byte
}

func release(after time.Duration) ending {
	return ending{what: "release", query: map[string]string{"after": millis(after)}}
}

// ending is the report of what the handler left.
func (t *attempt) ending(ctx context.Context, result handled) (ending, error) {
	said, cause := new(verdict), context.Cause(ctx)
	isVerdict := errors.As(result.err, &said)
	switch {
	case result.err == nil:
		return t.done(result)
	case cause == ErrCancelled:
		return ending{what: "fail", body: []byte("cancelled")}, nil
	case isVerdict && said.isRelease:
		return release(said.after), nil
	case cause == ErrStopping && !isVerdict:
		return release(0), nil
	}
	t.app.config.Logger.Warn("an attempt has failed", "task", t.task, "error", result.err)
	return t.failure(result.err), nil
}

func (t *attempt) failure(err error) ending {
	text, said, retry := []rune(strings.ToValidUTF8(err.Error(), "?")), new(verdict), t.w.retry
	how := ending{what: "fail", query: map[string]string{}, body: []byte(string(text[:min(len(text), maxErrorText)]))}
	isVerdict := errors.As(err, &said)
	if isVerdict && said.isDead {
		how.query["dead"] = "true"
		return how
	}
	if isVerdict {
		how.query["retry_after"] = millis(said.after)
	} else if retry != nil {
		wait := retry.after(t.task.Attempt)
		if !t.app.isVirtual {
			wait += rand.N(wait/5+1) - wait/10
		}
		how.query["retry_after"] = millis(wait)
	}
	if retry != nil {
		how.query["max_attempts"] = strconv.Itoa(positive(retry.Max, 5))
	}
	return how
}

// done is the end of a handler that has succeeded, with its reply and the tasks that follow.
func (t *attempt) done(left handled) (how ending, err error) {
	if how.what = "done"; left.reply != nil {
		how.body, how.kind, err = encode(left.reply)
	}
	if err != nil || len(t.task.then) == 0 {
		return how, err
	}
	for i, job := range t.task.then {
		t.task.then[i] = t.app.ready(cmp.Or(left.ctx, context.Background()), job, false)
	}
	then, err := lines(t.task.then, true)
	form := map[string]any{"then": then}
	if left.reply != nil && how.kind == "" {
		return how, errors.New("a reply of bytes does not go together with Task.Then: reply with a value")
	} else if left.reply != nil {
		form["reply"] = json.RawMessage(how.body)
	}
	how.what, how.kind = "done-then", jsonType
	how.body, _ = json.Marshal(form)
	return how, err
}
