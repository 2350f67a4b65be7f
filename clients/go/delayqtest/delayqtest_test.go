package delayqtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
	"github.com/delayq/delayq/clients/go/delayqtest"
)

var ctx = context.Background()

func TestTheHistoryHasTheLivesOfATask(t *testing.T) {
	queue := delayqtest.New(t)
	delayq.Handle(queue.App, "a", func(context.Context, int) error { return delayq.Dead(errors.New("no van")) })
	_, err := queue.App.Send(ctx, "a", 1, delayq.ID("x"))
	queue.Advance(0)
	if _, err := queue.App.Cancel(ctx, "a", "x"); !errors.Is(err, delayq.ErrConflict) {
		t.Error(err)
	}
	lives, missing := queue.App.History(ctx, "a", "x")
	if err = errors.Join(err, missing); err != nil || len(lives) != 1 {
		t.Fatal(lives, err)
	}
	if lives[0].Outcome != "dead" || lives[0].Error != "no van" {
		t.Errorf("%+v", lives)
	}
}

func TestTasksRunInOrderAtTheirTime(t *testing.T) {
	queue := delayqtest.New(t)
	began := queue.Now()
	var ran []string
	delayq.Handle(queue.App, "mail", func(ctx context.Context, what string) error {
		task := delayq.FromContext(ctx)
		ran = append(ran, what+" "+queue.Now().Sub(began).String())
		switch {
		case what == "fails" && task.Attempt == 1:
			return errors.New("no van")
		case what == "dies":
			return delayq.Dead(errors.New("why"))
		case what == "waits" && queue.Now().Sub(began) < 2*time.Second:
			return delayq.Later(time.Second)
		case what == "sends":
			task.Then("mail", "follows", delayq.After(time.Second))
		}
		return nil
	}, delayq.Retry{Max: 2, Wait: 3 * time.Second})
	for _, what := range []string{"fails", "dies", "waits", "sends"} {
		if _, err := queue.App.Send(ctx, "mail", what, delayq.ID(what), delayq.After(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if attempts := queue.Advance(999 * time.Millisecond); attempts != 0 {
		t.Error("too early:", attempts)
	}
	queue.Advance(time.Minute)
	want := "fails 1s, dies 1s, waits 1s, sends 1s, waits 2s, follows 2s, fails 4s"
	if got := strings.Join(ran, ", "); got != want {
		t.Errorf("%s\ninstead of\n%s", got, want)
	}
	for id, state := range map[string]delayq.State{"fails": delayq.StateDone, "dies": delayq.StateDead, "waits": delayq.StateDone} {
		if info, err := queue.App.Find(ctx, "mail", id); err != nil || info.State != state {
			t.Error(id, info, err)
		}
	}
	if all := queue.Tasks("mail"); len(all) != 5 || all[4].ID != "sends+0" {
		t.Errorf("%+v", all)
	}
}

func TestItAnswersAsAServer(t *testing.T) {
	queue := delayqtest.New(t)
	app, later := queue.App, delayq.After(time.Hour)
	type receipts func(*delayq.Receipt, error)
	is := func(want any) receipts {
		return func(receipt *delayq.Receipt, err error) {
			t.Helper()
			if class, ok := want.(error); ok && !errors.Is(err, class) || !ok && (err != nil || receipt.Outcome != want) {
				t.Errorf("%+v %v instead of %v", receipt, err, want)
			}
		}
	}
	is(delayq.Accepted)(app.Send(ctx, "a", 1, delayq.ID("a"), later))
	is(delayq.AlreadyExists)(app.Send(ctx, "a", 1, delayq.ID("a"), later))
	is(delayq.ErrConflict)(app.Send(ctx, "a", 2, delayq.ID("a"), later))
	is(delayq.AlreadyExists)(app.Send(ctx, "a", 2, delayq.ID("a"), delayq.OnConflict(delayq.Keep)))
	is(delayq.Replaced)(app.Send(ctx, "a", 2, delayq.ID("a"), later, delayq.OnConflict(delayq.Replace)))
	is(delayq.ErrInvalidInput)(app.Send(ctx, "a b", 1))
	is(delayq.ErrInvalidInput)(app.Send(ctx, "a", 1, delayq.ID("a b")))
	is(delayq.ErrInvalidInput)(app.Send(ctx, "a", 1, delayq.After(-time.Second)))
	is(delayq.ErrInvalidInput)(app.Send(ctx, "a", 1, delayq.At(time.Unix(7, 0))))
	is(delayq.ErrInvalidInput)(app.Send(ctx, "a", 1, delayq.Throttle(time.Hour)))
	is(delayq.ErrInvalidInput)(app.Send(ctx, "a", 1, delayq.ID("x"), delayq.Debounce(1, 1), later))
	is(delayq.ErrInvalidInput)(app.Send(ctx, "a", 1, delayq.OnConflict("maybe")))
	is(delayq.ErrLimitExceeded)(app.Send(ctx, "a", strings.Repeat("x", 300_000)))
	if due, err := app.Reschedule(ctx, "a", "a", delayq.After(2*time.Hour)); err != nil || !due.Equal(queue.Now().Add(2*time.Hour)) {
		t.Error(due, err)
	}
	if _, err := app.Update(ctx, "a", "a", "new"); err != nil {
		t.Error(err)
	}
	if info, err := app.Find(ctx, "a", "a"); err != nil || info.Text != `"new"` {
		t.Error(info, err)
	}
	if outcome, err := app.Cancel(ctx, "a", "a"); err != nil || outcome != delayq.Cancelled {
		t.Error(outcome, err)
	}
	if _, err := app.Cancel(ctx, "a", "nope"); !errors.Is(err, delayq.ErrNotFound) {
		t.Error(err)
	}
	is(delayq.Accepted)(app.Send(ctx, "a", 1, delayq.ID("d"), delayq.Debounce(time.Minute, 90*time.Second)))
	queue.Advance(50 * time.Second)
	is(delayq.Replaced)(app.Send(ctx, "a", 2, delayq.ID("d"), delayq.Debounce(time.Minute, 90*time.Second)))
	if info, _ := app.Find(ctx, "a", "d"); info.DueAt.Sub(queue.Now()) != 40*time.Second {
		t.Error(info.DueAt.Sub(queue.Now()))
	}
	sent, err := app.SendAll(ctx, []delayq.Job{delayq.NewJob("a", 1), delayq.NewJob("a b", 1), delayq.NewJob("a", 2, delayq.ID("last"))})
	if !errors.Is(err, delayq.ErrInvalidInput) || sent[0].Err != nil || sent[1].Err == nil || sent[2].Receipt.ID != "last" {
		t.Error(sent, err)
	}
}

func TestAWaitForAReplyMovesTheClock(t *testing.T) {
	queue := delayqtest.New(t)
	delayq.HandleReply(queue.App, "price", func(_ context.Context, article string) (int, error) { return len(article) * 100, nil })
	began := queue.Now()
	receipt, err := queue.App.Send(ctx, "price", "lamp", delayq.After(10*time.Second), delayq.Wait(20*time.Second))
	price := 0
	if err != nil || receipt.Reply.Decode(&price) != nil || price != 400 || queue.Now().Sub(began) != 10*time.Second {
		t.Error(receipt, err, price, queue.Now().Sub(began))
	}
	receipt, err = queue.App.Send(ctx, "price", "lamp", delayq.After(time.Hour), delayq.Wait(5*time.Second))
	if err != nil || receipt.Reply.State != delayq.StatePending {
		t.Error(receipt, err)
	}
	if _, err := queue.App.Batch(ctx, "x"); err == nil || !strings.Contains(err.Error(), "test double") {
		t.Error(err)
	}
}

func TestACancelWhileItRuns(t *testing.T) {
	queue := delayqtest.New(t)
	delayq.Handle(queue.App, "a", func(ctx context.Context, _ int) error {
		if outcome, err := queue.App.Cancel(ctx, "a", "x"); err != nil || outcome != delayq.Running {
			t.Error(outcome, err)
		}
		return errors.New("stopped")
	})
	if _, err := queue.App.Send(ctx, "a", 1, delayq.ID("x"), delayq.Wait(time.Second)); !errors.Is(err, delayq.ErrCancelled) {
		t.Error(err)
	}
}
