package delayq

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Outcome is what became of a request. The server may answer one that is not listed here.
type Outcome string

// The outcomes of Send and Cancel.
const (
	Accepted      Outcome = "accepted"
	Replaced      Outcome = "replaced"
	AlreadyExists Outcome = "already_exists"
	RunsAgain     Outcome = "runs_again"

	Cancelled Outcome = "cancelled" // it never starts
	Running   Outcome = "running"   // it runs, and is asked to stop
)

// State is the state of a task. The server may answer one that is not listed here.
type State string

// The states of a task.
const (
	StateScheduled State = "scheduled"
	StateRunning   State = "running"
	StateDead      State = "dead"
	StateDone      State = "done"
	StateCancelled State = "cancelled"
	StateExpired   State = "expired"
	StatePending   State = "pending" // of a Reply: ask again
)

// Time is a time that JSON has as milliseconds since the epoch. The zero value is no time.
type Time struct{ time.Time }

// UnmarshalJSON reads milliseconds; null is no time.
func (t *Time) UnmarshalJSON(text []byte) (err error) {
	var ms *int64
	if err = json.Unmarshal(text, &ms); err == nil && ms != nil {
		t.Time = time.UnixMilli(*ms)
	}
	return err
}

// MarshalJSON writes milliseconds; no time is null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, t.UnixMilli(), 10), nil
}

// Message is the message of a task: text, or bytes that are no text.
type Message struct {
	Text  string `json:"message,omitempty"`
	Bytes []byte `json:"message_base64,omitempty"`
}

// Raw returns the message as it was sent.
func (m Message) Raw() []byte { return append([]byte(m.Text), m.Bytes...) }

// Decode reads a message of JSON.
func (m Message) Decode(into any) error { return json.Unmarshal(m.Raw(), into) }

// Receipt is the proof that a task was accepted.
type Receipt struct {
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`
	DueAt   Time    `json:"due_at"`          // zero if the task existed already
	State   State   `json:"state,omitempty"` // of the task that existed
	// Durability is what the acceptance survives: memory, process, disk or replicated.
	Durability string `json:"durability"`
	// Reply is there with [Wait].
	Reply *Reply `json:"-"`
}

// Reply is the end of a task as its sender sees it.
type Reply struct {
	State       State // StateDone, or StatePending: the task goes on
	ContentType string
	Body        []byte // nil without a reply
}

// Decode reads a reply of JSON. Without a reply it is an error.
func (r *Reply) Decode(into any) error {
	if r == nil || r.Body == nil {
		return errors.New("delayq: there is no reply")
	}
	return json.Unmarshal(r.Body, into)
}

// TaskInfo is what the server knows about a task. One that has ended has no message and no headers.
type TaskInfo struct {
	Message
	ID    string `json:"id"`
	State State  `json:"state"`
	// At is, by state, when it is due, when its lock expires, when it died or when it ended.
	At              Time              `json:"at"`
	Attempt         int               `json:"attempt"`
	DueAt           Time              `json:"due_at"`
	SubmittedAt     Time              `json:"submitted_at"`
	ExpiresAt       Time              `json:"expires_at"`
	Headers         map[string]string `json:"headers"`
	LastError       string            `json:"last_error,omitempty"`
	CancelRequested bool              `json:"cancel_requested"`
}

// Life is an ended life of a task.
type Life struct {
	Outcome     string `json:"outcome"` // done, dead, expired, cancelled or discarded
	SubmittedAt Time   `json:"submitted_at"`
	DueAt       Time   `json:"due_at"`
	StartedAt   Time   `json:"started_at"`
	EndedAt     Time   `json:"ended_at"`
	Attempts    int    `json:"attempts"`
	Error       string `json:"error"`
}
