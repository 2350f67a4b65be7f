package delayq_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

// faulty is a server with some tasks. How says what the nth request of a kind is answered: text, a
// status, or the time that the answer is late.
type faulty struct {
	mu    sync.Mutex
	tasks []string
	how   map[string]func(n int) any
	seen  map[string][]string
}

func (f *faulty) of(what string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[what]
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	what := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	f.mu.Lock()
	f.seen[what] = append(f.seen[what], r.URL.String()+string(body))
	n, tasks := len(f.seen[what]), []map[string]any{}
	if what == "claim" && len(f.tasks) > 0 {
		tasks = []map[string]any{{"type": "a", "id": f.tasks[0], "lock": "1-0", "fence": 1, "attempt": 1, "message": "1"}}
		f.tasks = f.tasks[1:]
	}
	f.mu.Unlock()
	var answer any
	if how := f.how[what]; how != nil {
		answer = how(n)
	} else if what == "claim" && len(tasks) == 0 {
		answer = 300 * time.Millisecond
	}
	switch answer := answer.(type) {
	case time.Duration:
		select {
		case <-time.After(answer):
		case <-r.Context().Done():
		}
	case string:
		_, _ = io.WriteString(w, answer)
		return
	case int:
		w.WriteHeader(answer)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"outcome": "extended", "tasks": tasks})
}

func newFaulty(t *testing.T, how map[string]func(int) any, tasks ...string) (*faulty, *delayq.App) {
	f := &faulty{tasks: tasks, how: how, seen: map[string][]string{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	app, err := delayq.New(delayq.Config{URL: server.URL, Token: "t", Patience: 3 * time.Second, Grace: -1})
	if err != nil {
		t.Fatal(err)
	}
	return f, app
}

func TestOneBadExtensionDoesNotCostTheLock(t *testing.T) {
	for name, fault := range map[string]any{"late": 20 * time.Second, "page": "<html>", "500": 500, "503": 503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, app := newFaulty(t, map[string]func(int) any{"extend": func(n int) any {
				if n == 1 {
					return fault
				}
				return nil
			}}, "x")
			delayq.Handle(app, "a", func(ctx context.Context, _ int) error {
				select {
				case <-ctx.Done():
					t.Error(context.Cause(ctx))
				case <-time.After(5 * time.Second):
				}
				return nil
			}, delayq.Lock(2*time.Second))
			work(t, app)
			for end := time.Now().Add(10 * time.Second); len(f.of("done")) == 0 && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
			if len(f.of("extend")) < 3 || len(f.of("done")) == 0 {
				t.Error(f.of("extend"))
			}
		})
	}
}

func TestAServerThatAnswersAtOnceIsNotAskedWithoutAPause(t *testing.T) {
	f, app := newFaulty(t, map[string]func(int) any{"claim": func(int) any { return nil }})
	delayq.Handle(app, "a", func(context.Context, int) error { return nil })
	work(t, app)
	time.Sleep(2 * time.Second)
	if n := len(f.of("claim")); n < 1 || n > 8 {
		t.Error(n)
	}
}

func TestThePageOfAProxyIsNoTaskThatIsUnknown(t *testing.T) {
	_, app := newFaulty(t, map[string]func(int) any{"x": func(int) any { return 404 }})
	if _, err := app.Find(ctx, "a", "x"); err == nil || errors.Is(err, delayq.ErrNotFound) {
		t.Error(err)
	}
}
