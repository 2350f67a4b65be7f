package delayq_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

func TestHowAttemptsEnd(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	var laters, retried, waits sync.Map
	started := func(of *sync.Map, task *delayq.Task) bool {
		_, isAgain := of.LoadOrStore(task.ID, time.Now())
		return !isAgain
	}
	delayq.Handle(app, kind, func(ctx context.Context, what string) error {
		task := delayq.FromContext(ctx)
		switch {
		case what == "dead":
			return fmt.Errorf("wrapped: %w", delayq.Dead(errors.New("no such order")))
		case what == "panic":
			panic("at the disco")
		case what == "goexit":
			runtime.Goexit()
		case what == "long":
			return delayq.Dead(errors.New(strings.Repeat("ü", 5000)))
		case what == "later" && started(&laters, task):
			return delayq.Later(200 * time.Millisecond)
		case what == "fail" && started(&retried, task):
			return errors.New("no van")
		case what == "retry_after" && started(&waits, task):
			return delayq.RetryAfter(1500*time.Millisecond, errors.New("busy"))
		case what == "then":
			task.Then(kind+".next", "a", delayq.ID("next"))
			task.Then(kind+".next", "b")
		case what == "refused":
			task.Then("no such type!", 1)
		}
		return nil
	}, delayq.Concurrency(9), delayq.Retry{Max: 2, Wait: 50 * time.Millisecond})
	work(t, app)
	for _, what := range []string{"dead", "panic", "goexit", "long", "later", "fail", "retry_after", "then", "refused", "ok"} {
		if _, err := app.Send(ctx, kind, what, delayq.ID(what)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := app.Send(ctx, kind, []int{1}, delayq.ID("undecodable")); err != nil {
		t.Fatal(err)
	}
	for id, says := range map[string]string{
		"dead": "wrapped: no such order", "panic": "panic: at the disco", "goexit": "goroutine", "long": "üüü",
		"undecodable": "cannot be decoded as string", "refused": "invalid task type",
	} {
		if info := until(t, app, kind, id, inState(delayq.StateDead)); !strings.Contains(info.LastError, says) {
			t.Errorf("%s: %s", id, info.LastError)
		}
	}
	for id, attempt := range map[string]int{"later": 1, "fail": 2, "retry_after": 2, "then": 1, "ok": 1} {
		if info := until(t, app, kind, id, inState(delayq.StateDone)); info.Attempt != attempt {
			t.Errorf("%s: attempt %d", id, info.Attempt)
		}
	}
	if began, _ := waits.Load("retry_after"); time.Since(began.(time.Time)) < 1500*time.Millisecond {
		t.Error("the wait of RetryAfter is not kept")
	}
	if _, err := app.Find(ctx, kind+".next", "next"); err != nil {
		t.Error(err)
	}
	if info := until(t, app, kind, "undecodable", inState(delayq.StateDead)); info.Attempt != 1 {
		t.Errorf("%+v", info)
	}
}

func TestTheWaitsOfARetry(t *testing.T) {
	for _, one := range []struct {
		retry   delayq.Retry
		attempt int
		want    time.Duration
	}{
		{delayq.Retry{}, 1, time.Second},
		{delayq.Retry{}, 4, 8 * time.Second},
		{delayq.Retry{}, 99, 10 * time.Minute},
		{delayq.Retry{Wait: 3 * time.Second, Fixed: true}, 9, 3 * time.Second},
		{delayq.Retry{Wait: 3 * time.Second, MaxWait: 4 * time.Second}, 2, 4 * time.Second},
	} {
		if got := one.retry.After(one.attempt); got < one.want*9/10 || got > one.want*11/10+1 {
			t.Errorf("%+v: %v", one, got)
		}
	}
}

func TestConcurrencyIsReachedAndNotExceeded(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	var running, most atomic.Int64
	full, done := make(chan struct{}), make(chan struct{}, 12)
	var once sync.Once
	delayq.Handle(app, kind, func(context.Context, int) error {
		now := running.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		if now == 3 {
			once.Do(func() { close(full) })
		}
		<-full
		time.Sleep(30 * time.Millisecond)
		running.Add(-1)
		done <- struct{}{}
		return nil
	}, delayq.Concurrency(3))
	jobs := make([]delayq.Job, 12)
	for i := range jobs {
		jobs[i] = delayq.NewJob(kind, i)
	}
	if _, err := app.SendAll(ctx, jobs); err != nil {
		t.Fatal(err)
	}
	work(t, app)
	for range jobs {
		get(t, done)
	}
	if most.Load() != 3 {
		t.Error("at a time:", most.Load())
	}
}

func TestACancelReachesTheHandlerAndALockIsExtended(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	started, causes := make(chan string, 9), make(chan error, 2)
	delayq.Handle(app, kind, func(ctx context.Context, _ int) error {
		task := delayq.FromContext(ctx)
		started <- task.ID
		if task.ID == "blocks" {
			time.Sleep(3500 * time.Millisecond) // three locks and a half
			return nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		if task.ID == "ignores" {
			return nil
		}
		return ctx.Err()
	}, delayq.Concurrency(3), delayq.Lock(time.Second))
	work(t, app)
	for _, id := range []string{"blocks", "obeys", "ignores"} {
		if _, err := app.Send(ctx, kind, 1, delayq.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		get(t, started)
	}
	for _, id := range []string{"obeys", "ignores"} {
		if outcome, err := app.Cancel(ctx, kind, id); err != nil || outcome != delayq.Running {
			t.Error(outcome, err)
		}
	}
	for range 2 {
		if cause := get(t, causes); cause != delayq.ErrCancelled {
			t.Error(cause)
		}
	}
	until(t, app, kind, "obeys", inState(delayq.StateCancelled))
	until(t, app, kind, "ignores", inState(delayq.StateDone))
	if info := until(t, app, kind, "blocks", inState(delayq.StateDone)); info.Attempt != 1 || len(started) != 0 {
		t.Errorf("%+v, and %d more starts", info, len(started))
	}
}

func TestALostLockIsToldAndNotReported(t *testing.T) {
	p := newProxy(t, theServer(t).url)
	app, kind := newApp(t, p.URL), typeOf(t)
	other := newApp(t, theServer(t).url)
	lost, release := make(chan error, 1), make(chan struct{})
	delayq.Handle(app, kind, func(ctx context.Context, _ int) error {
		p.spoil(func(http.ResponseWriter, *http.Request, func()) bool { panic(http.ErrAbortHandler) })
		<-ctx.Done()
		lost <- context.Cause(ctx)
		<-release
		return nil
	}, delayq.Lock(time.Second))
	stop := work(t, app)
	if _, err := other.Send(ctx, kind, 1, delayq.ID("a")); err != nil {
		t.Fatal(err)
	}
	if cause := get(t, lost); cause != delayq.ErrLockLost {
		t.Error(cause)
	}
	again := make(chan *delayq.Task, 1)
	delayq.Handle(other, kind, func(ctx context.Context, _ int) error {
		again <- delayq.FromContext(ctx)
		return nil
	})
	work(t, other)
	if task := get(t, again); task.Attempt != 2 {
		t.Error(task)
	}
	until(t, other, kind, "a", inState(delayq.StateDone))
	p.spoil(func(_ http.ResponseWriter, r *http.Request, _ func()) bool {
		if strings.Contains(r.URL.Path, "/tasks/") {
			t.Error("the end of a lost attempt is reported:", r.URL)
		}
		return false
	})
	close(release)
	stop()
}

func TestTheEndOfAnAttemptIsRepeatedUntilItIsCertain(t *testing.T) {
	folder := t.TempDir()
	theServer(t)
	s := newServer(t, folder)
	defer func() { s.kill() }()
	p := newProxy(t, s.url)
	app, kind := newApp(t, p.URL), typeOf(t)
	var starts atomic.Int64
	delayq.Handle(app, kind, func(ctx context.Context, what string) error {
		starts.Add(1)
		if what == "kill" {
			s.kill()
			time.AfterFunc(700*time.Millisecond, func() { s.start(t) })
		}
		return nil
	})
	work(t, app)
	p.spoil(times(2, "/done", lostAnswer))
	if receipt, err := app.Send(ctx, kind, "lose", delayq.Wait(20*time.Second)); err != nil || receipt.Reply.State != delayq.StateDone {
		t.Error(receipt, err)
	}
	p.heal()
	if _, err := app.Send(ctx, kind, "kill", delayq.ID("kill")); err != nil {
		t.Fatal(err)
	}
	until(t, app, kind, "kill", inState(delayq.StateDone))
	if starts.Load() != 2 {
		t.Error("starts:", starts.Load())
	}
}

func TestAStopFinishesWhatItCanAndGivesBackTheRest(t *testing.T) {
	app, kind := newApp(t, theServer(t).url, func(c *delayq.Config) { c.Grace = 500 * time.Millisecond }), typeOf(t)
	started, causes, block := make(chan string, 9), make(chan error, 1), make(chan struct{})
	defer close(block)
	delayq.Handle(app, kind, func(ctx context.Context, what string) error {
		started <- what
		switch what {
		case "short":
			time.Sleep(200 * time.Millisecond)
		case "block":
			<-block
		case "obeys":
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}
		return nil
	}, delayq.Concurrency(3))
	stop := work(t, app)
	for _, what := range []string{"short", "block", "obeys"} {
		if _, err := app.Send(ctx, kind, what, delayq.ID(what)); err != nil {
			t.Fatal(err)
		}
		get(t, started)
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took < 500*time.Millisecond || took > 8*time.Second {
		t.Error("the stop took", took)
	}
	if cause := get(t, causes); cause != delayq.ErrStopping {
		t.Error(cause)
	}
	for id, state := range map[string]delayq.State{"short": delayq.StateDone, "block": delayq.StateScheduled, "obeys": delayq.StateScheduled} {
		info, err := app.Find(ctx, kind, id)
		if err != nil || info.State != state || state == delayq.StateScheduled && (info.Attempt != 0 || info.LastError != "") {
			t.Errorf("%s: %+v %v", id, info, err)
		}
	}
	if err := app.Work(canceled()); err != nil {
		t.Error("it does not work again:", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestMiddlewareAndHooks(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	type key struct{}
	order := make(chan string, 9)
	app.OnSend(func(ctx context.Context, job *delayq.Job) { delayq.Header("by", job.ID()+"!")(job) })
	for _, name := range []string{"outer", "inner"} {
		app.Around(func(ctx context.Context, task *delayq.Task, next func(context.Context) error) error {
			order <- name
			err := next(context.WithValue(ctx, key{}, name))
			order <- fmt.Sprint(name, " ", err)
			return err
		})
	}
	delayq.Handle(app, kind, func(ctx context.Context, _ int) error {
		order <- fmt.Sprint(ctx.Value(key{}), delayq.FromContext(ctx).Headers["by"])
		return delayq.Dead(errors.New("oh"))
	})
	work(t, app)
	if _, err := app.Send(ctx, kind, 1, delayq.ID("a"), delayq.Wait(20*time.Second)); !errors.Is(err, delayq.ErrDead) {
		t.Fatal(err)
	}
	for _, want := range []string{"outer", "inner", "innera!", "inner oh", "outer oh"} {
		if got := get(t, order); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

func TestAHandlerThatIsWronglyMadePanics(t *testing.T) {
	app := newApp(t, "http://127.0.0.1:1")
	handler := func(context.Context, int) error { return nil }
	delayq.Handle(app, "a", handler)
	for name, options := range map[string][]delayq.HandleOption{
		"a": nil, "b": {delayq.Concurrency(0)}, "c": {delayq.Lock(time.Millisecond)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error(name)
				}
			}()
			delayq.Handle(app, name, handler, options...)
		}()
	}
	if err := newApp(t, "http://127.0.0.1:1").Work(ctx); !errors.Is(err, delayq.ErrInvalidInput) {
		t.Error(err)
	}
}
