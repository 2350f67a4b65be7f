package delayq

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Job is a task to send.
type Job struct {
	// Type is the type of the task, such as order.cancel.
	Type string
	// Message is any value, which is sent as JSON; a []byte is sent as it is.
	Message any

	id      string
	headers map[string]string
	fields  map[string]string // other options, by their names in a request
	wait    time.Duration
}

// Option is an option of a task to send.
type Option func(*Job)

// NewJob makes a job for [App.SendAll] and [App.SendBatch].
func NewJob(taskType string, message any, options ...Option) Job {
	job := Job{Type: taskType, Message: message, headers: map[string]string{}, fields: map[string]string{}}
	for _, apply := range options {
		apply(&job)
	}
	return job
}

// ID returns the id that the sender chose, or "".
func (j *Job) ID() string { return j.id }

func field(name, value string) Option { return func(j *Job) { j.fields[name] = value } }

func unixMilli(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// ID identifies the task within its type: sending it again is harmless. 1 to 128 visible ASCII
// characters. Without it a random id is made.
func ID(id string) Option { return func(j *Job) { j.id = id } }

// After delays the task, on the clock of the server.
func After(delay time.Duration) Option { return field("delay", millis(delay)) }

// At sets the time when the task is due. A past time means now.
func At(at time.Time) Option { return field("at", unixMilli(at)) }

// Conflict is what to do if another task has the id.
type Conflict string

// What to do if another task has the id.
const (
	Reject  Conflict = "reject"  // the call fails with ErrConflict, the default
	Keep    Conflict = "keep"    // the first one stays
	Replace Conflict = "replace" // the last one takes its place
)

// OnConflict says what to do if another task has the id.
func OnConflict(rule Conflict) Option { return field("on_conflict", string(rule)) }

// Debounce makes the task due once it has not been sent again for the quiet time, and at the latest
// maxWait after it was sent first. It needs an [ID].
func Debounce(quiet, maxWait time.Duration) Option {
	return func(j *Job) { j.fields["debounce"], j.fields["max_wait"] = millis(quiet), millis(maxWait) }
}

// Throttle makes one task of all that are sent with the [ID] in a window of time, due at its end.
// The receipt has the id of that task, ID@END.
func Throttle(window time.Duration) Option { return field("throttle", millis(window)) }

// ExpiresAfter drops the task unless it starts within this span after its due time.
func ExpiresAfter(span time.Duration) Option { return field("expires_after", millis(span)) }

// ExpiresAt drops the task unless it starts before this time.
func ExpiresAt(at time.Time) Option { return field("expires_at", unixMilli(at)) }

// Group labels the task, such as with a tenant or an import.
func Group(label string) Option { return field("group", label) }

// Project labels the task with a project.
func Project(label string) Option { return field("project", label) }

// Header adds a header, which the worker gets beside the message: names in lower case, names and
// values of visible ASCII.
func Header(name, value string) Option {
	return func(j *Job) { j.headers[strings.ToLower(name)] = value }
}

// AgainIfRunning runs the task once more if it runs now, instead of refusing it.
func AgainIfRunning() Option { return field("again_if_running", "true") }

// Wait has [App.Send] wait for the reply of the worker, for at most this long.
func Wait(longest time.Duration) Option { return func(j *Job) { j.wait = longest } }

// ready is the job after the hooks, under an id that makes every repetition harmless.
func (a *App) ready(ctx context.Context, job Job, makesID bool) Job {
	sent := job
	job = NewJob(sent.Type, sent.Message, ID(sent.id), Wait(sent.wait))
	maps.Copy(job.headers, sent.headers)
	maps.Copy(job.fields, sent.fields)
	a.mu.Lock()
	hooks := a.onSend
	a.mu.Unlock()
	for _, hook := range hooks {
		hook(ctx, &job)
	}
	if makesID && job.id == "" && job.fields["debounce"]+job.fields["throttle"] == "" {
		random := make([]byte, 16)
		_, _ = rand.Read(random) // it never fails where Go runs
		job.id = hex.EncodeToString(random)
	}
	return job
}

// encode is a message or a reply as bytes, with its content type if they are JSON.
func encode(value any) ([]byte, string, error) {
	if raw, ok := value.([]byte); ok {
		return raw, "", nil
	}
	body, err := json.Marshal(value)
	if err != nil {
		return nil, "", refuse("%T cannot be written as JSON: %v", value, err)
	}
	return body, jsonType, nil
}

// lines are jobs as objects of JSON.
func lines(jobs []Job, isTyped bool) ([]map[string]any, error) {
	all := make([]map[string]any, len(jobs))
	for i, job := range jobs {
		body, kind, err := encode(job.Message)
		if err != nil {
			return nil, err
		} else if job.wait != 0 {
			return nil, refuse("delayq.Wait is an option of Send alone")
		}
		headers := map[string]string{}
		line := map[string]any{"headers": headers}
		if kind == "" {
			line["message_base64"] = body
		} else {
			line["json"], headers["content-type"] = json.RawMessage(body), kind
		}
		maps.Copy(headers, job.headers)
		for name, value := range job.fields {
			line[name] = value
		}
		if delete(line, "again_if_running"); job.fields["again_if_running"] != "" {
			line["again_if_running"] = true
		}
		if job.id != "" {
			line["id"] = job.id
		}
		if isTyped {
			line["type"] = job.Type
		}
		all[i] = line
	}
	return all, nil
}

// request creates the task.
func (j Job) request() (request, error) {
	body, kind, err := encode(j.Message)
	r := request{method: "PUT", path: []string{"types", j.Type, "tasks", j.id}, body: body}
	if j.id == "" {
		r.method, r.path = "POST", r.path[:3]
	}
	r.query, r.header = url.Values{}, map[string]string{"Content-Type": kind}
	for name, value := range j.fields {
		r.query.Set(name, value)
	}
	for name, value := range j.headers {
		if name != "content-type" {
			name = "Delayq-Header-" + name
		}
		r.header[name] = value
	}
	return r, err
}
