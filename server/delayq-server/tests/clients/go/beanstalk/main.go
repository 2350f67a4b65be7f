// The commands of beanstalkd through go-beanstalk. One argument: the address of the server.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

const patience = 5 * time.Second

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func check(isRight bool, found ...any) {
	if !isRight {
		log.Panic(found...)
	}
}

func refused(err, expected error) {
	check(errors.Is(err, expected), "answered ", err, ", not ", expected)
}

func dial(name string) (*beanstalk.Conn, *beanstalk.Tube, *beanstalk.TubeSet) {
	conn, err := beanstalk.DialTimeout("tcp", os.Args[1], patience)
	must(err)
	return conn, beanstalk.NewTube(conn, name), beanstalk.NewTubeSet(conn, name)
}

func put(tube *beanstalk.Tube, body string, priority uint32, delay, ttr time.Duration) uint64 {
	id, err := tube.Put([]byte(body), priority, delay, ttr)
	must(err)
	return id
}

func reserve(tubes *beanstalk.TubeSet, id uint64, body string) {
	found, bytes, err := tubes.Reserve(patience)
	must(err)
	check(found == id && string(bytes) == body, found, " ", string(bytes))
}

func jobsGoThroughTheirStates() {
	conn, tube, tubes := dial("states")
	late := put(tube, "late", 1, time.Second, 9*time.Second)
	job := put(tube, "a\r\nb", 10, 0, time.Minute)
	stats, err := conn.StatsJob(late)
	must(err)
	check(stats["state"] == "delayed" && stats["pri"] == "1" && stats["ttr"] == "9", stats)
	id, _, err := tube.PeekDelayed()
	must(err)
	check(id == late, id)
	id, _, err = tube.PeekReady()
	must(err)
	check(id == job, id)

	reserve(tubes, job, "a\r\nb")
	must(conn.Touch(job))
	must(conn.Release(job, 3, 0))
	_, err = conn.ReserveJob(job)
	must(err)
	must(conn.Bury(job, 5))
	id, _, err = tube.PeekBuried()
	must(err)
	check(id == job, id)
	kicked, err := tube.Kick(10)
	must(err)
	check(kicked == 1, kicked)
	must(conn.Delete(job))

	reserve(tubes, late, "late")
	must(conn.Release(late, 1, time.Hour))
	must(conn.KickJob(late))
	body, err := conn.Peek(late)
	must(err)
	check(string(body) == "late", string(body))
	must(conn.Delete(late))
	refused(conn.Delete(late), beanstalk.ErrNotFound)
	_, _, err = tubes.Reserve(0)
	refused(err, beanstalk.ErrTimeout)
	must(conn.Close())
}

func tubesArePausedAndCounted() {
	conn, tube, tubes := dial("tube")
	job := put(tube, "x", 0, 0, time.Second)
	must(tube.Pause(time.Second))
	stats, err := tube.Stats()
	must(err)
	// The server quotes names, as beanstalkd does from 1.13 on; the client leaves the quotes.
	check(strings.Trim(stats["name"], `"`) == "tube" && stats["pause"] == "1", stats)
	_, _, err = tubes.Reserve(0)
	refused(err, beanstalk.ErrTimeout)
	reserve(tubes, job, "x")
	_, _, err = tubes.Reserve(patience)
	refused(err, beanstalk.ErrDeadline)
	must(conn.Delete(job))
	names, err := conn.ListTubes()
	must(err)
	check(strings.Contains(strings.Join(names, " "), "default"), names)
	all, err := conn.Stats()
	must(err)
	check(all["max-job-size"] == "65535" && all["current-jobs-reserved"] == "0", all)
	_, err = tube.Put(make([]byte, 65536), 0, 0, time.Second)
	refused(err, beanstalk.ErrJobTooBig)
	must(conn.Close())
}

func main() {
	fmt.Println("jobsGoThroughTheirStates")
	jobsGoThroughTheirStates()
	fmt.Println("tubesArePausedAndCounted")
	tubesArePausedAndCounted()
}
