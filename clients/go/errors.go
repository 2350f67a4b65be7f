package delayq

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// What errors are about, for errors.Is. Every error of a call is an [*Error].
var (
	// ErrConflict: the id belongs to another task, or the task's state does not allow the call.
	ErrConflict = errors.New("delayq: conflict")
	// ErrNotFound: there is no such task, batch, recurring task or type.
	ErrNotFound = errors.New("delayq: not found")
	// ErrUnauthorized: the token is unknown, or may not do this.
	ErrUnauthorized = errors.New("delayq: unauthorized")
	// ErrInvalidInput: the input is refused; repeating the call does not help.
	ErrInvalidInput = errors.New("delayq: invalid input")
	// ErrLimitExceeded: too large, too many, or the store is full.
	ErrLimitExceeded = errors.New("delayq: limit exceeded")
	// ErrUnavailable: the server or its store was not reached. [Error.IsInDoubt] says whether the
	// call may have been carried out all the same.
	ErrUnavailable = errors.New("delayq: unavailable")
	// ErrDead: the task whose reply is waited for is dead.
	ErrDead = errors.New("delayq: the task is dead")
	// ErrExpired: the task whose reply is waited for expired before it ran.
	ErrExpired = errors.New("delayq: the task has expired")
	// ErrCancelled: the task is cancelled. It is also the cause of a handler's context, see
	// context.Cause: stop the work and return an error, and the task ends as cancelled.
	ErrCancelled = errors.New("delayq: the task is cancelled")
	// ErrLockLost is the cause of a handler's context if another worker may have the task by now.
	// What the handler returns is dropped.
	ErrLockLost = errors.New("delayq: the lock of the task is lost")
	// ErrStopping is the cause of a handler's context at the end of [Config.Grace]. If the handler
	// returns an error, its task is given back, which uses up no attempt.
	ErrStopping = errors.New("delayq: the worker stops")
	// ErrInvalidSignature: a request is not signed by the server, or is too old.
	ErrInvalidSignature = errors.New("delayq: invalid signature")
)

var classOfKind = map[string]error{
	"lock-lost": ErrLockLost, "dead": ErrDead, "cancelled": ErrCancelled, "expired": ErrExpired,
	// A 404 of an address, or of a server without a history, says nothing of a task.
	"no-route": nil, "no-history": nil,
}

var classOfStatus = map[int]error{
	409: ErrConflict, 404: ErrNotFound, 401: ErrUnauthorized, 403: ErrUnauthorized,
	400: ErrInvalidInput, 422: ErrInvalidInput, 413: ErrLimitExceeded, 429: ErrLimitExceeded, 507: ErrLimitExceeded,
	0: ErrUnavailable, 408: ErrUnavailable, 502: ErrUnavailable, 503: ErrUnavailable, 504: ErrUnavailable,
}

// Error is a refusal of the server, or the failure to reach it.
type Error struct {
	// Kind never changes its meaning: conflict, lock-lost, queue-full, unauthorized, unavailable ..
	Kind string `json:"type"`
	// Status is that of the answer; 0 without one.
	Status int `json:"status"`
	// Title is the kind in a few words, Detail what is wrong and what to change.
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// IsRepeatable: the same call may succeed later.
	IsRepeatable bool `json:"is_repeatable"`
	// IsInDoubt: the call, or an earlier try of it, may have been carried out.
	IsInDoubt bool `json:"-"`
	// RetryAfter is what the server asked to wait before a repetition.
	RetryAfter time.Duration `json:"retry_after"`

	cause error
}

func (e *Error) Error() string { return "delayq: " + e.Kind + ": " + e.Detail }

// Unwrap returns the error of the connection or the context, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether e is about class, such as [ErrConflict].
func (e *Error) Is(class error) bool {
	own, isKind := classOfKind[e.Kind]
	if !isKind && (e.Kind != unexpected || e.IsRepeatable) {
		own = classOfStatus[e.Status]
	}
	return own != nil && own == class
}

// refuse is the error of an input that is not even sent.
func refuse(format string, values ...any) *Error {
	return &Error{Kind: "bad-request", Status: 400, Title: "the request is not understood", Detail: fmt.Sprintf(format, values...)}
}

// verdict is the error of a handler that says what becomes of its task.
type verdict struct {
	error
	isDead, isRelease bool
	after             time.Duration
}

func (v *verdict) Unwrap() error { return v.error }

// Dead is returned by a handler whose task must not be tried again: it becomes a dead letter.
func Dead(err error) error { return &verdict{error: cmp.Or(err, errUnknown), isDead: true} }

// Later is returned by a handler that waits for something that is not wrong: the task is due again
// after the given time, and no attempt is used up.
func Later(after time.Duration) error {
	return &verdict{error: errLater, isRelease: true, after: after}
}

// RetryAfter is returned by a handler whose attempt failed with err, to choose the wait before the
// next attempt itself.
func RetryAfter(after time.Duration, err error) error {
	return &verdict{error: cmp.Or(err, errUnknown), after: after}
}

var errUnknown, errLater = errors.New("no reason was given"), errors.New("it is tried again later")
