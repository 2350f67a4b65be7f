// The driver lets the scenario suite use the client: a JSON object per line in, and one out for each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

type object = map[string]any

// item is a task to send.
type item struct {
	Type           string
	Message        json.RawMessage
	ID             string
	After          *span
	At             *int64
	OnConflict     *string `json:"on_conflict"`
	Debounce       *span
	MaxWait        span `json:"max_wait"`
	Throttle       *span
	ExpiresAfter   *span  `json:"expires_after"`
	ExpiresAt      *int64 `json:"expires_at"`
	Group          *string
	Project        *string
	Headers        map[string]string
	AgainIfRunning bool `json:"again_if_running"`
	Wait           span
}

// line is a line of input.
type line struct {
	item
	N                        int
	Do                       string
	Timeout, Patience, Grace span
	Token, URL               string
	Items, Tasks             []item
	Name                     string
	Then                     item
	Every, Zone              string
	Concurrency              int
	Lock                     span
	Retry                    *struct {
		Max     int
		Wait    span
		MaxWait span `json:"max_wait"`
		Fixed   bool
	}
	Secrets []string
	Body    string
}

type span time.Duration

func (s *span) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	*s = span(value)
	return err
}

func (i item) options() (options []delayq.Option) {
	add := func(option delayq.Option) { options = append(options, option) }
	if i.ID != "" {
		add(delayq.ID(i.ID))
	}
	if i.After != nil {
		add(delayq.After(time.Duration(*i.After)))
	}
	if i.At != nil {
		add(delayq.At(time.UnixMilli(*i.At)))
	}
	if i.OnConflict != nil {
		add(delayq.OnConflict(delayq.Conflict(*i.OnConflict)))
	}
	if i.Debounce != nil {
		add(delayq.Debounce(time.Duration(*i.Debounce), time.Duration(i.MaxWait)))
	}
	if i.Throttle != nil {
		add(delayq.Throttle(time.Duration(*i.Throttle)))
	}
	if i.ExpiresAfter != nil {
		add(delayq.ExpiresAfter(time.Duration(*i.ExpiresAfter)))
	}
	if i.ExpiresAt != nil {
		add(delayq.ExpiresAt(time.UnixMilli(*i.ExpiresAt)))
	}
	if i.Group != nil {
		add(delayq.Group(*i.Group))
	}
	if i.Project != nil {
		add(delayq.Project(*i.Project))
	}
	for name, value := range i.Headers {
		add(delayq.Header(name, value))
	}
	if i.AgainIfRunning {
		add(delayq.AgainIfRunning())
	}
	if i.Wait != 0 {
		add(delayq.Wait(time.Duration(i.Wait)))
	}
	return options
}

func jobs(items []item) (all []delayq.Job) {
	for _, i := range items {
		all = append(all, delayq.NewJob(i.Type, i.Message, i.options()...))
	}
	return all
}

// say writes a line.
func say(what object) {
	text, err := json.Marshal(what)
	if err != nil {
		log.Fatal(err)
	}
	out.Lock()
	defer out.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

var out sync.Mutex

// failure is an error as the suite reads it.
func failure(err error) object {
	var refused *delayq.Error
	switch {
	case errors.As(err, &refused):
		return object{
			"kind": refused.Kind, "status": refused.Status, "is_repeatable": refused.IsRepeatable,
			"is_in_doubt": refused.IsInDoubt, "detail": refused.Detail,
		}
	case errors.Is(err, delayq.ErrInvalidSignature):
		return object{"kind": "invalid-signature", "detail": err.Error()}
	}
	return object{"kind": "other", "detail": err.Error()}
}

// driver is the App of the suite, and whether it works.
type driver struct {
	app   *delayq.App
	mu    sync.Mutex
	later map[string]int
	stop  context.CancelFunc
	ended chan struct{}
}

func (d *driver) make(l line) error {
	var err error
	d.app, err = delayq.New(delayq.Config{
		URL: l.URL, Token: l.Token, Timeout: time.Duration(l.Timeout), Patience: time.Duration(l.Patience),
		Grace: time.Duration(l.Grace),
	})
	return err
}

func main() {
	log.SetOutput(os.Stderr)
	d := &driver{later: map[string]int{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		signal.Stop(signals)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.stop == nil {
			os.Exit(0)
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			say(object{"n": l.N, "error": object{"kind": "bad-request", "status": 400, "detail": err.Error()}})
			continue
		}
		var err error
		if d.app == nil || l.Do == "app" {
			err = d.make(l)
		}
		switch {
		case err != nil:
			say(object{"n": l.N, "error": failure(err)})
		case l.Do == "app" || l.Do == "work":
			d.answer(l) // in order
		default:
			go d.answer(l)
		}
	}
}

func (d *driver) answer(l line) {
	said, err := d.do(context.Background(), l)
	if err != nil {
		say(object{"n": l.N, "error": failure(err)})
		return
	}
	say(object{"n": l.N, "ok": said})
}

func receipt(r *delayq.Receipt) object {
	said := object{"id": r.ID, "outcome": r.Outcome}
	if !r.DueAt.IsZero() {
		said["due_at"] = r.DueAt
	}
	if r.State != "" {
		said["state"] = r.State
	}
	if r.Reply != nil && r.Reply.Body != nil {
		said["reply"] = reply(r.Reply)
	}
	return said
}

// reply is JSON if it is, or else text; null without one.
func reply(r *delayq.Reply) any {
	var value any
	switch {
	case r.Body == nil:
		return nil
	case r.Decode(&value) == nil:
		return json.RawMessage(r.Body)
	}
	return string(r.Body)
}

func (d *driver) do(ctx context.Context, l line) (any, error) {
	changed := func(at time.Time, err error) (any, error) {
		return object{"outcome": "changed", "due_at": at.UnixMilli()}, err
	}
	switch l.Do {
	case "app":
		return object{}, nil
	case "send":
		r, err := d.app.Send(ctx, l.Type, l.Message, l.options()...)
		if err != nil {
			return nil, err
		}
		return receipt(r), nil
	case "send_many":
		results, _ := d.app.SendAll(ctx, jobs(l.Items))
		said := make([]object, len(results))
		for i, result := range results {
			if result.Err != nil {
				said[i] = object{"error": failure(result.Err)}
			} else {
				said[i] = receipt(result.Receipt)
			}
		}
		return said, nil
	case "cancel":
		outcome, err := d.app.Cancel(ctx, l.Type, l.ID)
		return object{"outcome": outcome}, err
	case "run_now":
		return changed(d.app.RunNow(ctx, l.Type, l.ID))
	case "find":
		info, err := d.app.Find(ctx, l.Type, l.ID)
		if errors.Is(err, delayq.ErrNotFound) {
			return nil, nil
		}
		return info, err
	case "reply":
		r, err := d.app.Reply(ctx, l.Type, l.ID, time.Duration(l.Wait))
		if err != nil {
			return nil, err
		}
		return reply(r), nil
	case "reschedule":
		if l.At != nil {
			return changed(d.app.Reschedule(ctx, l.Type, l.ID, delayq.At(time.UnixMilli(*l.At))))
		}
		return changed(d.app.Reschedule(ctx, l.Type, l.ID, delayq.After(time.Duration(*l.After))))
	case "update":
		return changed(d.app.Update(ctx, l.Type, l.ID, l.Message))
	case "batch":
		then := jobs([]item{l.Then})
		return d.app.SendBatch(ctx, delayq.Batch{Name: l.Name, Tasks: jobs(l.Tasks), Then: then[0]})
	case "batch_state":
		return d.app.Batch(ctx, l.Name)
	case "batch_cancel":
		return d.app.CancelBatch(ctx, l.Name)
	case "recurring":
		return d.app.SetRecurring(ctx, delayq.Recurring{
			ID: l.ID, Every: l.Every, Zone: l.Zone, Job: delayq.NewJob(l.Type, l.Message),
		})
	case "recurring_remove":
		return object{}, d.app.RemoveRecurring(ctx, l.ID)
	case "recurring_pause":
		return d.app.PauseRecurring(ctx, l.ID)
	case "recurring_resume":
		return d.app.ResumeRecurring(ctx, l.ID)
	case "recurring_list":
		return d.app.ListRecurring(ctx)
	case "history":
		return d.app.History(ctx, l.Type, l.ID)
	case "work":
		d.work(l)
		return object{}, nil
	case "stop":
		d.mu.Lock()
		stop, ended := d.stop, d.ended
		d.mu.Unlock()
		if stop != nil {
			stop()
			<-ended
		}
		return object{}, nil
	case "verify":
		return d.verify(l)
	}
	return nil, errors.New("unknown: " + l.Do)
}

func (d *driver) verify(l line) (any, error) {
	webhook, err := delayq.NewWebhook(l.Secrets...)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range l.Headers {
		header.Set(name, value)
	}
	hook, err := webhook.Verify(header, []byte(l.Body))
	if err != nil {
		return nil, err
	}
	return object{"id": hook.ID, "type": hook.Type}, nil
}
