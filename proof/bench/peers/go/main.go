// One case of River, once: prints what came out as one line of JSON, as the program in ../src does.
// river river CASE --url postgres://USER@127.0.0.1:PORT/DATABASE --count N [--rate N] [--limit SECONDS]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	bulk        = 1000
	inFlight    = 64
	concurrency = 128
	look        = 2 * time.Millisecond
	tick        = 10 * time.Millisecond
	lead        = 4 * time.Second
	// How often it looks, as in its own benchmark.
	cooldown = 2 * time.Millisecond
	poll     = 20 * time.Millisecond
)

const unsettled = `SELECT count(*) FROM river_job WHERE state <> 'completed'`

// Message is such as a shop would send.
type Message struct {
	Order    string `json:"order"`
	Customer string `json:"customer"`
	Reason   string `json:"reason"`
	Note     string `json:"note"`
}

// Kind names the type.
func (Message) Kind() string { return "bench" }

func message(number int) Message {
	return Message{
		Order:    fmt.Sprintf("order-%010d", number),
		Customer: fmt.Sprintf("customer-%08d", number),
		Reason:   "the payment did not arrive in time",
		Note:     "goods reserved in warehouse 17, shelf 120; release them, then write to the customers.",
	}
}

type worker struct {
	river.WorkerDefaults[Message]
	board *board
}

// Work tells the board which task it was given.
func (w *worker) Work(_ context.Context, job *river.Job[Message]) error {
	now := time.Now()
	var number int
	if _, err := fmt.Sscanf(job.Args.Order, "order-%d", &number); err != nil {
		return err
	}
	w.board.started(number, now)
	return nil
}

type program struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	board  *board
	count  int
	rate   int
	limit  time.Duration
}

func open(ctx context.Context, url string, count int) (*program, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	// One for each caller.
	config.MaxConns = inFlight
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	board := newBoard(count)
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{board: board})
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown:     cooldown,
		FetchPollInterval: poll,
		Logger:            slog.New(slog.DiscardHandler),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}},
		Workers:           workers,
	})
	return &program{pool: pool, client: client, board: board, count: count}, err
}

func (p *program) submit(ctx context.Context, number int, delay time.Duration) error {
	_, err := p.client.Insert(ctx, message(number), options(delay))
	return err
}

func options(delay time.Duration) *river.InsertOpts {
	if delay == 0 {
		return nil
	}
	return &river.InsertOpts{ScheduledAt: time.Now().Add(delay)}
}

// Sends all, 1,000 in a call. It has a faster call, which tells nobody the ids.
func (p *program) submitAll(ctx context.Context, delay func(number int) time.Duration) error {
	for from := 0; from < p.count; from += bulk {
		var jobs []river.InsertManyParams
		for number := from; number < min(from+bulk, p.count); number++ {
			jobs = append(jobs, river.InsertManyParams{
				Args: message(number), InsertOpts: options(delay(number)),
			})
		}
		if _, err := p.client.InsertMany(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) perSecond(started time.Time) any {
	return map[string]float64{"rate": float64(p.count) / time.Since(started).Seconds()}
}

func (p *program) submitInBulk(ctx context.Context) (any, error) {
	started := time.Now()
	err := p.submitAll(ctx, func(int) time.Duration { return time.Hour })
	return p.perSecond(started), err
}

func (p *program) submitSingly(ctx context.Context) (any, error) {
	started := time.Now()
	numbers, failed := make(chan int), make(chan error, inFlight)
	var callers sync.WaitGroup
	for range inFlight {
		callers.Go(func() {
			for number := range numbers {
				if err := p.submit(ctx, number, time.Hour); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for number := range p.count {
		select {
		case numbers <- number:
		case err := <-failed:
			return nil, err
		}
	}
	close(numbers)
	callers.Wait()
	return p.perSecond(started), nil
}

func (p *program) drain(ctx context.Context) (any, error) {
	if err := p.submitAll(ctx, func(int) time.Duration { return 0 }); err != nil {
		return nil, err
	}
	started := time.Now()
	if err := p.client.Start(ctx); err != nil {
		return nil, err
	}
	hasRun := p.board.wait(p.limit)
	left := p.count
	for time.Since(started) < p.limit {
		if err := p.pool.QueryRow(ctx, unsettled).Scan(&left); err != nil {
			return nil, err
		}
		if hasRun && left == 0 {
			return p.perSecond(started), nil
		}
		time.Sleep(look)
	}
	text := fmt.Sprintf("%d of %d ran, %d were not settled, in %v", p.board.ran(), p.count, left, p.limit)
	return map[string]string{"stopped": text}, nil
}

// Starts the worker, and waits for one delayed task more: before a leader is elected, which takes
// seconds, none becomes due.
func (p *program) startReady(ctx context.Context) error {
	if err := p.client.Start(ctx); err != nil {
		return err
	}
	if err := p.submit(ctx, p.count, time.Second); err != nil {
		return err
	}
	select {
	case <-p.board.ready:
		return nil
	case <-time.After(p.limit):
		return fmt.Errorf("no delayed task runs in %v", p.limit)
	}
}

func (p *program) lateness(ctx context.Context) (any, error) {
	if err := p.startReady(ctx); err != nil {
		return nil, err
	}
	gap, started := time.Second/time.Duration(p.rate), time.Now()
	sent := make(chan error, p.count)
	for number := range p.count {
		if wait := time.Until(started.Add(time.Duration(number) * gap)); wait > 0 {
			time.Sleep(max(wait, tick))
		}
		delay := time.Second + time.Duration(rand.Int64N(4001))*time.Millisecond
		p.board.dueAt(number, time.Now().Add(delay))
		go func() { sent <- p.submit(ctx, number, delay) }()
	}
	for range p.count {
		if err := <-sent; err != nil {
			return nil, err
		}
	}
	p.board.wait(5*time.Second + p.limit)
	return map[string]any{"lateness_us": p.board.figures()}, nil
}

func (p *program) herd(ctx context.Context) (any, error) {
	if err := p.startReady(ctx); err != nil {
		return nil, err
	}
	due := time.Now().Add(lead)
	err := p.submitAll(ctx, func(number int) time.Duration {
		p.board.dueAt(number, due)
		return max(time.Until(due), 0)
	})
	if err != nil {
		return nil, err
	}
	isInTime := time.Now().Before(due)
	p.board.wait(time.Until(due) + p.limit)
	figures := p.board.figures()
	figures["sent_in_time"] = isInTime
	return map[string]any{"herd": figures}, nil
}

func (p *program) run(ctx context.Context, word string) (any, error) {
	cases := map[string]func(context.Context) (any, error){
		"prepare":        func(context.Context) (any, error) { return map[string]float64{"rate": 0}, nil },
		"submit-in-bulk": p.submitInBulk,
		"submit-singly":  p.submitSingly,
		"drain":          p.drain,
		"lateness":       p.lateness,
		"herd":           p.herd,
	}
	if one := cases[word]; one != nil {
		return one(ctx)
	}
	return map[string]string{"unsupported": "no such case"}, nil
}

func outcome() (any, error) {
	flags := flag.NewFlagSet("river", flag.ContinueOnError)
	url := flags.String("url", "", "its server")
	count := flags.Int("count", 0, "tasks")
	rate := flags.Int("rate", 0, "tasks a second")
	limit := flags.Int("limit", 60, "seconds")
	flags.Int("pid", 0, "the server's process")
	if len(os.Args) < 3 {
		return nil, fmt.Errorf("name the peer and the case")
	}
	if err := flags.Parse(os.Args[3:]); err != nil {
		return nil, err
	}
	ctx := context.Background()
	program, err := open(ctx, *url, *count)
	if err != nil {
		return nil, err
	}
	program.rate, program.limit = *rate, time.Duration(*limit)*time.Second
	return program.run(ctx, os.Args[2])
}

func main() {
	outcome, err := outcome()
	if err != nil {
		outcome = map[string]string{"failed": err.Error()}
	}
	text, err := json.Marshal(outcome)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}
