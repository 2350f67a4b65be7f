package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

// order is the message of a task: what its handler is to do.
type order struct {
	Do      string          `json:"do"`
	With    json.RawMessage `json:"with"`
	Error   string          `json:"error"`
	Times   *int            `json:"times"`
	For     span            `json:"for"`
	After   span            `json:"after"`
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
	ID      string          `json:"id"`
	whole   json.RawMessage
}

func (o *order) UnmarshalJSON(text []byte) error {
	type plain order
	if err := json.Unmarshal(text, (*plain)(o)); err != nil {
		return err
	}
	o.whole = append(json.RawMessage(nil), text...)
	if o.Do == "" {
		return errors.New("the field do is missing")
	}
	return nil
}

// work registers the handler for a type, and starts to work.
func (d *driver) work(l line) {
	options := []delayq.HandleOption{delayq.Concurrency(max(l.Concurrency, 1))}
	if l.Lock != 0 {
		options = append(options, delayq.Lock(l.Lock))
	}
	if l.Retry != nil {
		options = append(options, delayq.Retry{
			Max: l.Retry.Max, Wait: time.Duration(l.Retry.Wait), MaxWait: time.Duration(l.Retry.MaxWait), Fixed: l.Retry.Fixed,
		})
	}
	delayq.HandleReply(d.app, l.Type, d.handle, options...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	d.stop, d.ended = stop, ended
	go func() {
		_ = d.app.Run(ctx)
		close(ended)
		if ctx.Err() == nil {
			os.Exit(0) // a signal has ended it
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stop = nil
	}()
}

func (d *driver) handle(ctx context.Context, o order) (reply any, err error) {
	task := delayq.FromContext(ctx)
	at := func() int64 { return time.Now().UnixMilli() }
	start := object{
		"event": "start", "type": task.Type, "id": task.ID, "attempt": task.Attempt, "fence": task.Fence,
		"headers": task.Headers, "at": at(), "message": o.whole,
	}
	if task.LastError != "" {
		start["last_error"] = task.LastError
	}
	say(start)
	told := context.AfterFunc(ctx, func() {
		switch context.Cause(ctx) {
		case delayq.ErrCancelled:
			say(object{"event": "cancelled", "id": task.ID})
		case delayq.ErrLockLost:
			say(object{"event": "lost", "id": task.ID})
		}
	})
	defer told()
	defer func() {
		how := "returned"
		if err != nil {
			how = "raised"
		}
		say(object{"event": "end", "id": task.ID, "how": how, "at": at()})
	}()
	return d.obey(ctx, task, o)
}

func (d *driver) obey(ctx context.Context, task *delayq.Task, o order) (any, error) {
	isDue := func(count int) bool { return o.Times == nil || count <= *o.Times }
	var options []delayq.Option
	if o.ID != "" {
		options = append(options, delayq.ID(o.ID))
	}
	switch o.Do {
	case "reply":
		return o.With, nil
	case "echo":
		return o.whole, nil
	case "fail":
		if isDue(task.Attempt) {
			return nil, errors.New(o.Error)
		}
	case "retry_after":
		if isDue(task.Attempt) {
			return nil, delayq.RetryAfter(time.Duration(o.After), errors.New(o.Error))
		}
	case "dead":
		return nil, delayq.Dead(errors.New(o.Error))
	case "later":
		d.mu.Lock()
		d.later[task.ID]++
		count := d.later[task.ID]
		d.mu.Unlock()
		if isDue(count) {
			return nil, delayq.Later(time.Duration(o.After))
		}
	case "sleep":
		select {
		case <-time.After(time.Duration(o.For)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case "block":
		time.Sleep(time.Duration(o.For))
	case "then":
		task.Then(o.Type, o.Message, options...)
	case "send":
		_, err := d.app.Send(ctx, o.Type, o.Message, options...)
		return nil, err
	}
	return nil, nil
}
