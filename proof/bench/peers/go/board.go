package main

import (
	"slices"
	"sync"
	"time"
)

// Where workers note which tasks they were given, and when.
type board struct {
	mutex  sync.Mutex
	due    []time.Time
	starts []int
	lateUs []int64
	all    chan struct{}
	// Closed by a task beyond them.
	ready chan struct{}
}

func newBoard(count int) *board {
	return &board{
		due:    make([]time.Time, count),
		starts: make([]int, count),
		all:    make(chan struct{}),
		ready:  make(chan struct{}),
	}
}

// The task will be due then; to be called before it is sent.
func (b *board) dueAt(number int, due time.Time) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.due[number] = due
}

// A worker was given the task.
func (b *board) started(number int, now time.Time) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if number >= len(b.starts) {
		close(b.ready)
		return
	}
	b.starts[number]++
	if b.starts[number] > 1 {
		return
	}
	b.lateUs = append(b.lateUs, now.Sub(b.due[number]).Microseconds())
	if len(b.lateUs) == len(b.starts) {
		close(b.all)
	}
}

// Waits until every task has started, for so long at most; says whether they have.
func (b *board) wait(limit time.Duration) bool {
	select {
	case <-b.all:
		return true
	case <-time.After(limit):
		return false
	}
}

func (b *board) ran() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.lateUs)
}

// What it tells of the tasks that have started.
func (b *board) figures() map[string]any {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	sorted, repeats, early := slices.Sorted(slices.Values(b.lateUs)), 0, 0
	for _, starts := range b.starts {
		repeats += max(starts-1, 0)
	}
	for _, us := range sorted {
		if us < 0 {
			early++
		}
	}
	at := func(percent int) any {
		if len(sorted) == 0 {
			return nil
		}
		return sorted[max((len(sorted)*percent+99)/100-1, 0)]
	}
	return map[string]any{
		"tasks": len(b.starts), "ran": len(sorted), "repeats": repeats, "early": early,
		"min": at(0), "p50": at(50), "p90": at(90), "p99": at(99), "max": at(100),
	}
}
