package delayqtest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

// draft is a task that is to be created.
type draft struct {
	taskType, id    string
	message         []byte
	headers, fields map[string]string
}

// readLine reads a task from a line of JSON.
func readLine(taskType string, text []byte) (draft, *refusal) {
	made := draft{taskType: taskType, fields: map[string]string{}}
	var fields map[string]any
	var line struct {
		Type, ID string
		JSON     json.RawMessage
		Raw      []byte `json:"message_base64"`
		Headers  map[string]string
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return made, bad("%v", err)
	}
	_ = json.Unmarshal(text, &fields)
	for _, name := range []string{"type", "id", "json", "message_base64", "headers"} {
		delete(fields, name)
	}
	for name, value := range fields {
		made.fields[name] = fmt.Sprint(value)
	}
	made.id, made.message, made.headers = line.ID, append(line.Raw, line.JSON...), line.Headers
	if taskType == "" {
		made.taskType = line.Type
	}
	return made, nil
}

func (q *Queue) bulk(taskType string, body []byte) (any, *refusal) {
	var answer []byte
	for n, text := range bytes.Split(bytes.TrimSpace(body), []byte("\n")) {
		made, refused := readLine(taskType, text)
		said := map[string]any{}
		if refused == nil {
			said, refused = q.create(made)
		}
		if refused != nil {
			said = map[string]any{"problem": problem(refused)}
		}
		said["line"] = n + 1
		line, _ := json.Marshal(said)
		answer = append(append(answer, line...), '\n')
	}
	return answer, nil
}

// when is the time when a task is due.
func (q *Queue) when(fields map[string]string) (time.Time, *refusal) {
	delay, at := fields["delay"], fields["at"]
	switch {
	case delay != "" && at != "":
		return q.now, bad("delay and at exclude each other")
	case at != "":
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil || ms < 978307200000 {
			return q.now, bad("at: %q is no time after 2000", at)
		}
		return maxTime(q.now, time.UnixMilli(ms)), nil
	case delay != "":
		wait, refused := readSpan("delay", delay)
		return q.now.Add(wait), refused
	}
	return q.now, nil
}

// request is what makes two requests the same.
func (d draft) request() string {
	var all []string
	for name, value := range d.headers {
		all = append(all, name+"="+value)
	}
	for _, name := range []string{"delay", "at", "expires_after", "expires_at", "group", "project"} {
		all = append(all, name+":"+d.fields[name])
	}
	sort.Strings(all)
	return fmt.Sprintf("%q %q", d.message, all)
}

// make checks a draft, and makes a task of it.
func (q *Queue) make(d *draft) (*entry, *refusal) {
	debounce, throttle := d.fields["debounce"], d.fields["throttle"]
	isLimited := debounce != "" || throttle != ""
	switch {
	case !typeForm.MatchString(d.taskType):
		return nil, bad("invalid task type %q: use 1 to 100 of A-Z a-z 0-9 . _ - :", d.taskType)
	case isLimited && d.id == "":
		return nil, bad("debounce and throttle go by the id of the task, so give the task an id")
	case d.id != "" && !idForm.MatchString(d.id):
		return nil, bad("invalid task id %q: use 1 to 128 visible ASCII characters, without blanks", d.id)
	case isLimited && (debounce != "" && throttle != "" || d.fields["delay"]+d.fields["at"]+d.fields["on_conflict"] != ""):
		return nil, bad("debounce, throttle, delay, at and on_conflict exclude each other")
	case len(d.message) > maxMessage:
		return nil, &refusal{413, "limit-exceeded", fmt.Sprintf("the message has %d bytes; %d at most", len(d.message), maxMessage)}
	}
	switch d.fields["on_conflict"] {
	case "", "reject", "keep", "replace":
	default:
		return nil, bad("on_conflict=%s: use reject, keep or replace", d.fields["on_conflict"])
	}
	due, refused := q.when(d.fields)
	for _, name := range []string{"debounce", "max_wait", "throttle", "expires_after"} {
		if refused == nil && d.fields[name] != "" {
			_, refused = readSpan(name, d.fields[name])
		}
	}
	if refused != nil {
		return nil, refused
	}
	if throttle != "" {
		window, _ := readSpan("throttle", throttle)
		due = q.now.Truncate(window).Add(window)
		d.id += "@" + due.UTC().Format("2006-01-02T15:04:05.000Z")
		d.fields["on_conflict"] = "keep"
	}
	if d.id == "" {
		random := make([]byte, 16)
		_, _ = rand.Read(random)
		d.id = hex.EncodeToString(random)
	}
	one := &entry{taskType: d.taskType, request: d.request(), firstAt: q.now}
	one.ID, one.State, one.Headers = d.id, delayq.StateScheduled, map[string]string{}
	one.Message = delayq.Message{Bytes: d.message}
	if json.Valid(d.message) {
		one.Message = delayq.Message{Text: string(d.message)}
	}
	for name, value := range d.headers {
		one.Headers[name] = value
	}
	for _, name := range []string{"group", "project"} {
		if d.fields[name] != "" {
			one.Headers[name] = d.fields[name]
		}
	}
	one.At, one.DueAt, one.SubmittedAt = delayq.Time{Time: due}, delayq.Time{Time: due}, delayq.Time{Time: q.now}
	if text := d.fields["expires_after"]; text != "" {
		after, _ := readSpan("expires_after", text)
		one.ExpiresAt = delayq.Time{Time: due.Add(after)}
	} else if text := d.fields["expires_at"]; text != "" {
		ms, _ := strconv.ParseInt(text, 10, 64)
		one.ExpiresAt = delayq.Time{Time: time.UnixMilli(ms)}
	}
	return one, nil
}

// create accepts a task, or says what is in its place.
func (q *Queue) create(d draft) (map[string]any, *refusal) {
	one, refused := q.make(&d)
	if refused != nil {
		return nil, refused
	}
	outcome, before := delayq.Accepted, q.find(d.taskType, d.id)
	isAgain := d.fields["again_if_running"] == "true"
	exists := map[string]any{"id": d.id, "outcome": delayq.AlreadyExists, "durability": "memory"}
	if before != nil {
		exists["state"] = before.State
		isSame, isOld := before.request == one.request, !isOpen(before) && before.State != delayq.StateDead
		rule, isDebounced := d.fields["on_conflict"], d.fields["debounce"] != ""
		switch {
		case before.State == delayq.StateRunning && isAgain:
			if rule != "keep" || before.again == nil {
				before.again = one
			}
			return map[string]any{"id": d.id, "outcome": delayq.RunsAgain, "due_at": one.DueAt, "durability": "memory"}, nil
		case isSame && !isDebounced && !(isOld && isAgain), rule == "keep" && !isOld:
			return exists, nil
		case isOld:
		case before.State != delayq.StateRunning && (rule == "replace" || isDebounced):
			outcome = delayq.Replaced
			if isDebounced && before.State == delayq.StateScheduled && before.Attempt == 0 {
				one.firstAt = before.firstAt
			}
			q.remove(before)
		default:
			return nil, &refusal{409, "conflict", fmt.Sprintf("another task %s of %s is %s: use another id, or OnConflict", d.id, d.taskType, before.State)}
		}
	}
	if d.fields["debounce"] != "" {
		quiet, _ := readSpan("debounce", d.fields["debounce"])
		most, _ := readSpan("max_wait", d.fields["max_wait"])
		due := q.now.Add(quiet)
		if latest := one.firstAt.Add(most); due.After(latest) {
			due = latest
		}
		one.At, one.DueAt = delayq.Time{Time: due}, delayq.Time{Time: due}
	}
	q.tasks = append(q.tasks, one)
	return map[string]any{"id": one.ID, "outcome": outcome, "due_at": one.DueAt, "durability": "memory"}, nil
}

func (q *Queue) remove(one *entry) {
	for i, other := range q.tasks {
		if other == one {
			q.tasks = append(q.tasks[:i:i], q.tasks[i+1:]...)
			return
		}
	}
}
