package delayq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

type Order struct {
	Number int               `json:"order"`
	Note   string            `json:"note"`
	Tags   map[string][]*int `json:"tags"`
}

var ctx = context.Background()

func TestTheConfigurationIsChecked(t *testing.T) {
	t.Setenv("DELAYQ_HTTP", "")
	t.Setenv("DELAYQ_TOKEN", "")
	for _, one := range []struct{ url, token, namespace, says string }{
		{"", token, "", "DELAYQ_HTTP"},
		{"127.0.0.1:7880", token, "", "http://"},
		{"delayq://a@b/c", token, "", "http://"},
		{"http://", token, "", "a host"},
		{"http://a/v1/default?x=1", token, "", "query"},
		{"http://user@a/v1/default", token, "", "Config.Token"},
		{"http://a/v1/default/types", token, "", "/v1/NAMESPACE"},
		{"http://a/v1/shop", token, "mail", "Config.Namespace"},
		{"http://a", "", "", "DELAYQ_TOKEN"},
		{"http://a", "dq_a\n", "", "line break"},
	} {
		_, err := delayq.New(delayq.Config{URL: one.url, Token: one.token, Namespace: one.namespace})
		if !errors.Is(err, delayq.ErrInvalidInput) || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%+v: %v", one, err)
		}
	}
	for _, url := range []string{"http://a", "http://a/", "http://a/v1", "https://a/x/v1/shop/"} {
		if _, err := delayq.New(delayq.Config{URL: url, Token: token}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestAMessageArrivesAsItWasSent(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	one := 1
	sent := Order{1 << 53, "Grüße <&> 你好 \u2028", map[string][]*int{"a": {nil, &one}, "": nil}}
	got, tasks := make(chan Order, 1), make(chan *delayq.Task, 1)
	delayq.HandleReply(app, kind, func(ctx context.Context, order Order) (map[string]any, error) {
		got <- order
		tasks <- delayq.FromContext(ctx)
		return map[string]any{"number": order.Number, "none": nil}, nil
	})
	work(t, app)
	receipt, err := app.Send(ctx, kind, sent, delayq.ID("a/b?c#d%20:;+&=."), delayq.Wait(20*time.Second),
		delayq.Group("g-1"), delayq.Project("p-1"), delayq.Header("Traceparent", "00-1-2-01"))
	if err != nil || receipt.Outcome != delayq.Accepted || receipt.DueAt.IsZero() || receipt.Durability == "" {
		t.Fatal(receipt, err)
	}
	a, _ := json.Marshal(sent)
	b, _ := json.Marshal(get(t, got))
	if string(a) != string(b) {
		t.Errorf("%s is not %s", b, a)
	}
	task := get(t, tasks)
	if task.Group() != "g-1" || task.Headers["project"] != "p-1" || task.Headers["traceparent"] != "00-1-2-01" ||
		task.Attempt != 1 || task.Fence == 0 || task.SubmittedAt.IsZero() || task.ID != receipt.ID {
		t.Errorf("%+v", task)
	}
	var reply struct{ Number int }
	if err := receipt.Reply.Decode(&reply); err != nil || reply.Number != 1<<53 {
		t.Error(reply, err)
	}
}

func TestSendsAndChanges(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	later := delayq.After(time.Hour)
	must := func(want delayq.Outcome) func(*delayq.Receipt, error) *delayq.Receipt {
		return func(receipt *delayq.Receipt, err error) *delayq.Receipt {
			t.Helper()
			if err != nil || receipt.Outcome != want {
				t.Fatal(receipt, err)
			}
			return receipt
		}
	}
	if id := must(delayq.Accepted)(app.Send(ctx, kind, 1, later)).ID; len(id) != 32 {
		t.Errorf("the id %s has not 128 bits", id)
	}
	must(delayq.Accepted)(app.Send(ctx, kind, 1, delayq.ID("a"), later))
	must(delayq.AlreadyExists)(app.Send(ctx, kind, 1, delayq.ID("a"), later))
	sent, err := app.SendAll(ctx, []delayq.Job{delayq.NewJob(kind, 1, delayq.ID("a"), later)})
	if err != nil || sent[0].Receipt.Outcome != delayq.AlreadyExists {
		t.Error("the same in bulk is another request:", sent, err)
	}
	_, err = app.Send(ctx, kind, 2, delayq.ID("a"), later)
	var refused *delayq.Error
	if !errors.Is(err, delayq.ErrConflict) || !errors.As(err, &refused) || refused.Kind != "conflict" || refused.Status != 409 {
		t.Error(err)
	}
	must(delayq.AlreadyExists)(app.Send(ctx, kind, 2, delayq.ID("a"), delayq.OnConflict(delayq.Keep)))
	must(delayq.Replaced)(app.Send(ctx, kind, 3, delayq.ID("a"), later, delayq.OnConflict(delayq.Replace)))
	must(delayq.Accepted)(app.Send(ctx, kind, 1, delayq.ID("d"), delayq.Debounce(time.Minute, time.Hour)))
	if id := must(delayq.Accepted)(app.Send(ctx, kind, 1, delayq.ID("t"), delayq.Throttle(time.Hour))).ID; !strings.HasPrefix(id, "t@") {
		t.Error(id)
	}
	due, err := app.Reschedule(ctx, kind, "a", delayq.At(time.Now().Add(2*time.Hour)))
	if err != nil || time.Until(due) < 119*time.Minute {
		t.Error(due, err)
	}
	if _, err := app.Update(ctx, kind, "a", "new"); err != nil {
		t.Error(err)
	}
	must(delayq.Accepted)(app.Send(ctx, kind, []byte("\xff raw"), delayq.ID("raw"), later))
	for id, want := range map[string]string{"a": `"new"`, "raw": "\xff raw"} {
		info, err := app.Find(ctx, kind, id)
		if err != nil || string(info.Raw()) != want || info.State != delayq.StateScheduled {
			t.Error(info, err)
		}
	}
	if _, err := app.RunNow(ctx, kind, "a"); err != nil {
		t.Error(err)
	}
	for want, id := range map[delayq.Outcome]string{delayq.Cancelled: "a", "": "nope"} {
		outcome, err := app.Cancel(ctx, kind, id)
		if outcome != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, delayq.ErrNotFound) {
			t.Error(outcome, err)
		}
	}
	if _, err := app.Reply(ctx, kind, "a", 0); !errors.Is(err, delayq.ErrCancelled) {
		t.Error(err)
	}
	if reply, err := app.Reply(ctx, kind, "d", 10*time.Millisecond); err != nil || reply.State != delayq.StatePending {
		t.Error(reply, err)
	}
	for _, id := range []string{".", ".."} {
		must(delayq.Accepted)(app.Send(ctx, kind, 1, delayq.ID(id), later))
		if info, err := app.Find(ctx, kind, id); err != nil || info.ID != id {
			t.Error(info, err)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	large := strings.Repeat("x", 300_000)
	for _, one := range []struct {
		class   error
		message any
		options []delayq.Option
	}{
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.ID("a b")}},
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.After(-5 * time.Second)}},
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.Debounce(time.Minute, time.Hour)}},
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.Throttle(time.Minute)}},
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.Header("a b", "c")}},
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.Header("a", "b\nc")}},
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.Header("a", "ü")}},
		{delayq.ErrInvalidInput, 1, []delayq.Option{delayq.OnConflict("maybe")}},
		{delayq.ErrInvalidInput, func() {}, nil},
		{delayq.ErrLimitExceeded, large, nil},
	} {
		began := time.Now()
		_, err := app.Send(ctx, kind, one.message, one.options...)
		if !errors.Is(err, one.class) || time.Since(began) > 5*time.Second {
			t.Errorf("%+v: %v", one, err)
		}
	}
	if _, err := app.Find(ctx, kind, ""); !errors.Is(err, delayq.ErrInvalidInput) {
		t.Error(err)
	}
	stranger := newApp(t, theServer(t).url, func(c *delayq.Config) { c.Token = "dq_nobody_" + strings.Repeat("a", 32) })
	if _, err := stranger.Find(ctx, kind, "a"); !errors.Is(err, delayq.ErrUnauthorized) {
		t.Error(err)
	}
	stray := httptest.NewServer(http.NotFoundHandler())
	defer stray.Close()
	if _, err := newApp(t, stray.URL).Find(ctx, kind, "a"); err == nil || errors.Is(err, delayq.ErrNotFound) {
		t.Error("a wrong url looks like an unknown task:", err)
	}
	secure := newApp(t, strings.Replace(theServer(t).url, "http:", "https:", 1))
	if _, err := secure.Find(ctx, kind, "a"); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Error(err)
	}
}

func TestAllWithOneThatIsRefused(t *testing.T) {
	p := newProxy(t, theServer(t).url)
	app, kind := newApp(t, p.URL), typeOf(t)
	jobs := make([]delayq.Job, 2300)
	for i := range jobs {
		jobs[i] = delayq.NewJob(kind, Order{Number: i}, delayq.ID(fmt.Sprint("m-", i)), delayq.After(time.Hour))
	}
	jobs[7] = delayq.NewJob(kind, 7, delayq.ID("a b"))
	jobs[8] = delayq.NewJob(kind, strings.Repeat("x", 255_000), delayq.After(time.Hour))
	p.spoil(times(2, "bulk", lostAnswer))
	results, err := app.SendAll(ctx, jobs)
	if !errors.Is(err, delayq.ErrInvalidInput) || !strings.Contains(err.Error(), "job 8 of 2300") {
		t.Fatal(err)
	}
	for i, result := range results {
		switch {
		case i == 7 && result.Err == nil, i != 7 && result.Err != nil:
			t.Fatal(i, result.Err)
		case i > 8 && result.Receipt.ID != fmt.Sprint("m-", i):
			t.Fatal("not in order:", i, result.Receipt)
		}
	}
}

func TestALostAnswerIsRepeatedAndTheTaskExistsOnce(t *testing.T) {
	p := newProxy(t, theServer(t).url)
	app, kind := newApp(t, p.URL), typeOf(t)
	p.spoil(times(2, "/tasks/", lostAnswer))
	receipt, err := app.Send(ctx, kind, 1, delayq.After(time.Hour))
	if err != nil || receipt.Outcome != delayq.AlreadyExists || p.seen.Load() != 3 {
		t.Error(receipt, err, p.seen.Load())
	}
}

func TestAServerThatStaysAway(t *testing.T) {
	p := newProxy(t, theServer(t).url)
	app := newApp(t, p.URL, func(c *delayq.Config) { c.Patience = 300 * time.Millisecond })
	var refused *delayq.Error
	p.spoil(func(_ http.ResponseWriter, _ *http.Request, _ func()) bool { panic(http.ErrAbortHandler) })
	if _, err := app.Send(ctx, typeOf(t), 1); !errors.Is(err, delayq.ErrUnavailable) || !errors.As(err, &refused) || !refused.IsInDoubt {
		t.Error(err)
	}
	p.Close()
	if _, err := app.Send(ctx, typeOf(t), 1); !errors.Is(err, delayq.ErrUnavailable) || !errors.As(err, &refused) || refused.IsInDoubt {
		t.Error("a connection that is refused is in doubt:", err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := newApp(t, p.URL).Send(short, typeOf(t), 1); !errors.Is(err, delayq.ErrUnavailable) {
		t.Error(err)
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	p := newProxy(t, theServer(t).url)
	app := newApp(t, p.URL)
	p.spoil(times(1, "/tasks/", func(w http.ResponseWriter, _ *http.Request, _ func()) bool {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}))
	began := time.Now()
	if _, err := app.Send(ctx, typeOf(t), 1, delayq.After(time.Hour)); err != nil || time.Since(began) < time.Second {
		t.Error(err, time.Since(began))
	}
}

func TestBatchesAndRecurringTasks(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	counts := make(chan delayq.BatchCounts, 1)
	delayq.Handle(app, kind, func(context.Context, int) error { return nil }, delayq.Concurrency(3))
	delayq.Handle(app, kind+".then", func(ctx context.Context, _ string) error {
		counts <- delayq.FromContext(ctx).Batch()
		return nil
	})
	work(t, app)
	name := fmt.Sprint("b-", time.Now().UnixNano())
	batch := delayq.Batch{Name: name, Tasks: []delayq.Job{delayq.NewJob(kind, 1), delayq.NewJob(kind, 2)}, Then: delayq.NewJob(kind+".then", "x")}
	receipt, err := app.SendBatch(ctx, batch)
	if err != nil || len(receipt.IDs) != 2 || receipt.ThenType != kind+".then" {
		t.Fatal(receipt, err)
	}
	if got := get(t, counts); got.Total != 2 || got.Done != 2 {
		t.Errorf("%+v", got)
	}
	batch.Name, batch.Tasks = name+"-2", []delayq.Job{delayq.NewJob(kind, 1, delayq.After(time.Hour))}
	if _, err := app.SendBatch(ctx, batch); err != nil {
		t.Fatal(err)
	}
	if info, err := app.Batch(ctx, batch.Name); err != nil || info.State != "waiting" || info.Counts.Total != 1 {
		t.Error(info, err)
	}
	if said, err := app.CancelBatch(ctx, batch.Name); err != nil || said.Changed != 1 {
		t.Error(said, err)
	}

	info, err := app.SetRecurring(ctx, delayq.Recurring{
		ID: name, Every: "0 9 * * MON-FRI", Zone: "Europe/Berlin", Job: delayq.NewJob(kind, 3, delayq.Group("g"), delayq.Header("a", "b")),
	})
	if err != nil || info.NextAt.IsZero() || info.Headers["a"] != "b" || string(info.Raw()) != "3" {
		t.Fatal(info, err)
	}
	if info, err = app.PauseRecurring(ctx, name); err != nil || !info.Paused {
		t.Error(info, err)
	}
	if info, err = app.ResumeRecurring(ctx, name); err != nil || info.Paused {
		t.Error(info, err)
	}
	if all, err := app.ListRecurring(ctx); err != nil || len(all) != 1 || all[0].Zone != "Europe/Berlin" {
		t.Error(all, err)
	}
	if err := app.RemoveRecurring(ctx, name); err != nil {
		t.Error(err)
	}
	if err := app.RemoveRecurring(ctx, name); !errors.Is(err, delayq.ErrNotFound) {
		t.Error(err)
	}
}

func TestTheHistoryOfATask(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	delayq.Handle(app, kind, func(context.Context, int) error { return delayq.Dead(errors.New("no van")) })
	work(t, app)
	if _, err := app.Send(ctx, kind, 1, delayq.ID("a"), delayq.Wait(20*time.Second)); !errors.Is(err, delayq.ErrDead) {
		t.Fatal(err)
	}
	for range 500 {
		lives, err := app.History(ctx, kind, "a")
		if err == nil && len(lives) == 1 {
			if life := lives[0]; life.Outcome != "dead" || life.Error != "no van" || life.Attempts != 1 || life.EndedAt.IsZero() {
				t.Errorf("%+v", life)
			}
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("its life does not come into the history")
}

func TestAReplyThatIsTooLongFailsTheAttempt(t *testing.T) {
	app, kind := newApp(t, theServer(t).url), typeOf(t)
	delayq.HandleReply(app, kind, func(context.Context, int) (string, error) {
		return strings.Repeat("x", 70_000), nil
	}, delayq.Retry{Max: 1})
	work(t, app)
	if _, err := app.SendAll(ctx, []delayq.Job{{Type: kind, Message: 1}}); err != nil {
		t.Fatal(err)
	}
	_, err := app.Send(ctx, kind, 1, delayq.Wait(20*time.Second))
	if !errors.Is(err, delayq.ErrDead) || !strings.Contains(err.Error(), "64 KiB") && !strings.Contains(err.Error(), "65536") {
		t.Error(err)
	}
}
