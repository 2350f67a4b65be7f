// Jobs through dq of go-queue, one of whose two servers is lost on the way. Arguments: the
// addresses of both servers, and that of a Redis. It prints a line for each step, and waits for a
// line before the next one.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/zeromicro/go-queue/dq"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/stores/redis"
)

const tube = "orders"

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func main() {
	logx.SetWriter(logx.NewWriter(os.Stderr))
	lines := bufio.NewScanner(os.Stdin)
	next := func(said string) {
		fmt.Println(said)
		if !lines.Scan() {
			os.Exit(1)
		}
	}
	nodes := []dq.Beanstalk{
		{Endpoint: os.Args[1], Tube: tube},
		{Endpoint: os.Args[2], Tube: tube},
	}
	consumer := dq.NewConsumer(dq.DqConf{
		Beanstalks: nodes,
		Redis:      redis.RedisConf{Host: os.Args[3], Type: redis.NodeType},
	})
	due := make(map[string]time.Time)
	producer := dq.NewProducer(nodes)
	delay := func(body string, span time.Duration) string {
		due[body] = time.Now().Add(span)
		ids, err := producer.Delay([]byte(body), span)
		must(err)
		return ids
	}

	due["at"] = time.Now().Add(time.Second)
	_, err := producer.At([]byte("at"), due["at"])
	must(err)
	revoked := delay("revoked", time.Second)
	for n := 0; n < 5; n++ {
		delay(fmt.Sprintf("early-%d", n), time.Second)
		delay(fmt.Sprintf("late-%d", n), 6*time.Second)
	}
	must(producer.Revoke(revoked))
	_, err = producer.At([]byte("past"), time.Now().Add(-time.Second))
	if err == nil || !strings.Contains(err.Error(), dq.ErrTimeBeforeNow.Error()) {
		log.Panic("a time that has passed: ", err)
	}

	go consumer.Consume(func(body []byte) {
		// dq hands whole seconds to the server: a job may be due up to one early.
		early := time.Until(due[string(body)])
		fmt.Printf("consumed %s %t\n", body, early < time.Second)
	})
	next("sent")
	if ids, err := producer.Delay([]byte("refused"), time.Second); err == nil {
		log.Panic("accepted by one server alone: ", ids)
	}
	next("refused")
}
