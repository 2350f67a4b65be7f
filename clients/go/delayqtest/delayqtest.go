// Package delayqtest is a delayq server for tests: in memory, and with a clock that the test moves.
//
//	queue := delayqtest.New(t)
//	order.Register(queue.App)
//	_, err := queue.App.Send(ctx, "order.cancel", Order{42}, delayq.After(30*time.Minute))
//	queue.Advance(30 * time.Minute) // runs the handlers of what is due, one after the other
//
// Send, SendAll, Find, Cancel, Reschedule, RunNow, Update and Reply are answered, and refused, as by
// a server. Handlers run within [Queue.Advance], with retries at their time and without jitter; a
// wait for a reply advances the clock. There are no batches and no recurring tasks.
package delayqtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
	"github.com/delayq/delayq/clients/go/internal/hook"
)

const maxMessage = 256 << 10

// Queue is the server of one test.
type Queue struct {
	// App is what the program under test sends with and registers its handlers at.
	App *delayq.App

	t     testing.TB
	mu    sync.Mutex
	now   time.Time
	tasks []*entry // in the order in which they were sent
	lives []life   // the latest first
	fence int64
}

// entry is a task.
type entry struct {
	delayq.TaskInfo
	taskType, request string
	firstAt           time.Time
	fence             int64
	reply             []byte
	replyKind         string
	again             *entry
}

// life is one that has ended.
type life struct {
	taskType, id string
	delayq.Life
}

// New makes an empty queue, whose clock shows the present time.
func New(t testing.TB) *Queue {
	t.Helper()
	q := &Queue{t: t, now: time.Now().Truncate(time.Millisecond)}
	app, err := delayq.New(delayq.Config{
		URL: "http://delayqtest", Token: "dq_test_token", HTTPClient: &http.Client{Transport: q},
	})
	if err != nil {
		t.Fatal(err)
	}
	q.App = app
	hook.Virtual(app)
	return q
}

// Now is the time that the clock of the queue shows.
func (q *Queue) Now() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.now
}

// Tasks are those of a type, in the order in which they were sent, also when they have ended.
func (q *Queue) Tasks(taskType string) (all []delayq.TaskInfo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.tasks {
		if one.taskType == taskType {
			all = append(all, one.TaskInfo)
		}
	}
	return all
}

// Advance moves the clock, and runs what becomes due meanwhile and has a handler, in order of due
// time. It returns how many attempts were made.
func (q *Queue) Advance(span time.Duration) int {
	q.t.Helper()
	return q.run(span, nil)
}

// run advances the clock until the task has ended, if there is one.
func (q *Queue) run(span time.Duration, awaited *entry) (attempts int) {
	q.mu.Lock()
	end := q.now.Add(span)
	for awaited == nil || isOpen(awaited) {
		next := q.next(end)
		if next == nil {
			q.now = maxTime(q.now, end)
			break
		}
		q.now = maxTime(q.now, next.At.Time)
		if !next.ExpiresAt.IsZero() && q.now.After(next.ExpiresAt.Time) {
			q.end(next, delayq.StateExpired)
			continue
		}
		q.fence++
		next.State, next.fence, next.CancelRequested = delayq.StateRunning, q.fence, false
		next.Attempt++
		claimed, _ := json.Marshal(map[string]any{
			"type": next.taskType, "id": next.ID, "attempt": next.Attempt, "fence": next.fence, "lock": fmt.Sprint(next.fence),
			"due_at": next.At, "submitted_at": next.SubmittedAt, "headers": next.Headers, "last_error": next.LastError,
			"message_base64": next.Raw(),
		})
		attempts++
		q.mu.Unlock()
		if err := hook.Attempt(q.App, claimed); err != nil {
			q.t.Error(err)
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return attempts
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// next is the task that is due first, at end at the latest.
func (q *Queue) next(end time.Time) (first *entry) {
	for _, one := range q.tasks {
		isDue := one.State == delayq.StateScheduled && !one.At.After(end) && hook.Handles(q.App, one.taskType)
		if isDue && (first == nil || one.At.Before(first.At.Time)) {
			first = one
		}
	}
	return first
}

func isOpen(one *entry) bool {
	return one.State == delayq.StateScheduled || one.State == delayq.StateRunning
}

// end ends a task. What was sent to run after it takes its place.
func (q *Queue) end(one *entry, state delayq.State) {
	one.State, one.At = state, delayq.Time{Time: q.now}
	q.lives = append([]life{{one.taskType, one.ID, delayq.Life{
		Outcome: string(state), SubmittedAt: one.SubmittedAt, DueAt: one.DueAt, EndedAt: one.At, Attempts: one.Attempt, Error: one.LastError,
	}}}, q.lives...)
	if again := one.again; again != nil {
		again.At = delayq.Time{Time: maxTime(q.now, again.At.Time)}
		one.again = nil
		q.tasks = append(q.tasks, again)
	}
}

func (q *Queue) find(taskType, id string) *entry {
	for i := len(q.tasks) - 1; i >= 0; i-- {
		if one := q.tasks[i]; one.taskType == taskType && one.ID == id {
			return one
		}
	}
	return nil
}

// refusal is a problem.
type refusal struct {
	status       int
	kind, detail string
}

func bad(format string, values ...any) *refusal {
	return &refusal{400, "bad-request", fmt.Sprintf(format, values...)}
}

// RoundTrip answers a request of the App.
func (q *Queue) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/default/"), "/")
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	status, kind, answer, refused := q.answer(r, parts, body)
	if refused != nil {
		status, kind = refused.status, "application/problem+json"
		answer = problem(refused)
	}
	text, isText := answer.([]byte)
	if !isText && answer != nil {
		text, _ = json.Marshal(answer)
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(text)), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(text)),
	}, nil
}

func problem(r *refusal) map[string]any {
	return map[string]any{
		"type": "urn:delayq:problem:" + r.kind, "title": r.kind, "status": r.status, "detail": r.detail, "is_repeatable": false,
	}
}

func (q *Queue) answer(r *http.Request, parts []string, body []byte) (status int, kind string, answer any, refused *refusal) {
	status, kind = 200, "application/json"
	if parts[0] != "types" || len(parts) < 3 {
		return 0, "", nil, &refusal{501, "unsupported", "the test double has no " + parts[len(parts)-1]}
	}
	taskType := parts[1]
	if r.Method == "GET" && parts[len(parts)-1] == "reply" {
		return q.wait(r, taskType, parts[3])
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case parts[2] == "bulk":
		answer, refused = q.bulk(taskType, body)
	case len(parts) == 3 || len(parts) == 4 && r.Method == "PUT":
		made := draft{taskType: taskType, message: body, headers: map[string]string{}, fields: map[string]string{}}
		if len(parts) == 4 {
			made.id = parts[3]
		}
		if kind := r.Header.Get("Content-Type"); kind != "" {
			made.headers["content-type"] = kind
		}
		for name := range r.Header {
			if own, ok := strings.CutPrefix(strings.ToLower(name), "delayq-header-"); ok {
				made.headers[own] = r.Header.Get(name)
			}
		}
		for name := range r.URL.Query() {
			made.fields[name] = r.URL.Query().Get(name)
		}
		answer, refused = q.create(made)
	default:
		one := q.find(taskType, parts[3])
		if one == nil {
			return 0, "", nil, &refusal{404, "not-found", fmt.Sprintf("there is no task %s of type %s", parts[3], taskType)}
		}
		what := ""
		if len(parts) > 4 {
			what = parts[4]
		}
		answer, refused = q.change(r, one, what, body)
	}
	return status, kind, answer, refused
}

var (
	typeForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,100}$`)
	idForm   = regexp.MustCompile(`^[!-~]{1,128}$`)
)

// change answers a request about one task.
func (q *Queue) change(r *http.Request, one *entry, what string, body []byte) (any, *refusal) {
	query := r.URL.Query()
	isHeld := one.State == delayq.StateRunning && query.Get("lock") == fmt.Sprint(one.fence)
	due := func(at time.Time, refused *refusal) (any, *refusal) {
		switch {
		case refused != nil:
			return nil, refused
		case one.State == delayq.StateRunning:
			return nil, &refusal{409, "running", one.ID + " runs: nothing was changed"}
		case one.State != delayq.StateScheduled:
			return nil, &refusal{409, "finished", fmt.Sprintf("%s is %s: nothing was changed", one.ID, one.State)}
		}
		one.At, one.DueAt = delayq.Time{Time: at}, delayq.Time{Time: at}
		return map[string]any{"due_at": one.DueAt}, nil
	}
	switch {
	case what == "" && r.Method == "GET":
		return one.TaskInfo, nil
	case what == "history":
		lives := []delayq.Life{}
		for _, ended := range q.lives {
			if ended.taskType == one.taskType && ended.id == one.ID {
				lives = append(lives, ended.Life)
			}
		}
		return map[string]any{"lives": lives}, nil
	case what == "":
		return q.cancel(one)
	case what == "run-now":
		return due(q.now, nil)
	case what == "reschedule":
		return due(q.when(map[string]string{"delay": query.Get("delay"), "at": query.Get("at")}))
	case what == "message":
		said, refused := due(one.At.Time, nil)
		if refused == nil {
			one.Message = delayq.Message{Text: string(body)}
		}
		return said, refused
	case !isHeld:
		return nil, &refusal{409, "lock-lost", "this lock of " + one.ID + " is lost"}
	case what == "extend" && one.CancelRequested:
		return map[string]any{"outcome": "cancel_requested"}, nil
	case what == "extend":
		return map[string]any{"outcome": "extended"}, nil
	}
	return q.settle(one, what, query, r.Header.Get("Content-Type"), body)
}

func (q *Queue) cancel(one *entry) (any, *refusal) {
	one.again = nil
	switch one.State {
	case delayq.StateRunning:
		one.CancelRequested = true
		return map[string]any{"outcome": delayq.Running}, nil
	case delayq.StateScheduled:
		q.end(one, delayq.StateCancelled)
		fallthrough
	case delayq.StateCancelled:
		return map[string]any{"outcome": delayq.Cancelled}, nil
	}
	return nil, &refusal{409, "finished", fmt.Sprintf("%s has ended: it is %s", one.ID, one.State)}
}

// settle ends an attempt.
func (q *Queue) settle(one *entry, what string, query url.Values, kind string, body []byte) (any, *refusal) {
	settled := map[string]any{"outcome": "settled"}
	if what == "done-then" {
		var form struct {
			Reply json.RawMessage
			Then  []json.RawMessage
		}
		if err := json.Unmarshal(body, &form); err != nil {
			return nil, bad("%v", err)
		}
		for n, line := range form.Then {
			made, refused := readLine("", line)
			if refused == nil && made.id == "" {
				made.id = fmt.Sprintf("%s+%d", one.ID, n)
			}
			if refused == nil && made.fields["on_conflict"] == "" {
				made.fields["on_conflict"] = "keep"
				_, refused = q.create(made)
			}
			if refused != nil {
				return nil, refused
			}
		}
		kind, body = "application/json", form.Reply
	}
	after, refused := span(query, "retry_after", time.Second<<min(one.Attempt-1, 9))
	if what == "release" {
		after, refused = span(query, "after", 0)
	}
	most := 5
	if text := query.Get("max_attempts"); text != "" {
		_, _ = fmt.Sscan(text, &most)
	}
	switch {
	case refused != nil:
		return nil, refused
	case len(body) > 64<<10 && what != "fail":
		return nil, &refusal{413, "limit-exceeded", "a reply has at most 64 KiB"}
	case what == "done" || what == "done-then":
		one.reply, one.replyKind = body, kind
		q.end(one, delayq.StateDone)
		return settled, nil
	case what == "fail":
		one.LastError = string(body)
	default:
		one.Attempt--
	}
	switch {
	case one.CancelRequested:
		q.end(one, delayq.StateCancelled)
	case what == "fail" && (query.Get("dead") == "true" || one.Attempt >= most):
		q.end(one, delayq.StateDead)
	default:
		one.State, one.At = delayq.StateScheduled, delayq.Time{Time: q.now.Add(after)}
	}
	return settled, nil
}

func span(query url.Values, name string, usual time.Duration) (time.Duration, *refusal) {
	text := query.Get(name)
	if text == "" {
		return usual, nil
	}
	return readSpan(name, text)
}

func readSpan(name, text string) (time.Duration, *refusal) {
	var ms int64
	if _, err := fmt.Sscan(text, &ms); err != nil || ms < 0 || ms > 10*366*24*3600*1000 {
		return 0, bad("%s: %q is no span of time up to 10 years", name, text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// wait answers a sender that waits for the reply, after the clock has moved.
func (q *Queue) wait(r *http.Request, taskType, id string) (int, string, any, *refusal) {
	longest, refused := span(r.URL.Query(), "wait", 0)
	q.mu.Lock()
	one := q.find(taskType, id)
	q.mu.Unlock()
	if one == nil {
		refused = &refusal{404, "not-found", "there is no task " + id}
	}
	if refused != nil {
		return 0, "", nil, refused
	}
	q.run(longest, one)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch one.State {
	case delayq.StateDone:
		if len(one.reply) == 0 {
			return 204, "", nil, nil
		}
		return 200, one.replyKind, one.reply, nil
	case delayq.StateDead:
		return 0, "", nil, &refusal{424, "dead", id + " is dead: " + one.LastError}
	case delayq.StateCancelled, delayq.StateExpired:
		return 0, "", nil, &refusal{410, string(one.State), id + " never runs"}
	}
	return 202, "application/json", map[string]any{"id": id, "outcome": "pending"}, nil
}
