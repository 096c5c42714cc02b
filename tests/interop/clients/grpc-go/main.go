// Every mode of Apache's Go client for gRPC, against one endpoint: probe ENDPOINT PREFIX tls|plain AK SK MODES.
// Topics and groups exist: PREFIX-MODE of the mode's type, and groups PREFIX-g-MODE. One JSON line for each mode.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const patience = 60 * time.Second

var endpoint, prefix = os.Args[1], os.Args[2]

func topicOf(mode string) string { return prefix + "-" + mode }

func config(mode string) *rmq.Config {
	return &rmq.Config{
		Endpoint: endpoint, ConsumerGroup: prefix + "-g-" + mode,
		Credentials: &credentials.SessionCredentials{AccessKey: os.Args[4], AccessSecret: os.Args[5]},
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("%v, wanted %v", found, wanted))
	}
}

func message(mode, body string) *rmq.Message {
	return &rmq.Message{Topic: topicOf(mode), Body: []byte(body)}
}

func send(producer rmq.Producer, one *rmq.Message) *rmq.SendReceipt {
	receipts, err := producer.Send(context.Background(), one)
	check(err)
	return receipts[0]
}

func numbered(letter string, count int) []string {
	var all []string
	for i := 0; i < count; i++ {
		all = append(all, fmt.Sprintf("%s%d", letter, i))
	}
	return all
}

func simple(mode string, filter *rmq.FilterExpression) rmq.SimpleConsumer {
	consumer, err := rmq.NewSimpleConsumer(
		config(mode), rmq.WithSimpleAwaitDuration(3*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topicOf(mode): filter}),
	)
	check(err)
	check(consumer.Start())
	return consumer
}

// The client reports an empty answer as an error.
func receive(consumer rmq.SimpleConsumer, count int, ack bool, limit time.Duration) []*rmq.MessageView {
	var found []*rmq.MessageView
	for end := time.Now().Add(limit); len(found) < count && time.Now().Before(end); {
		views, err := consumer.Receive(context.Background(), 16, 15*time.Second)
		if err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
			panic(err)
		}
		for _, view := range views {
			found = append(found, view)
			if ack {
				check(consumer.Ack(context.Background(), view))
			}
		}
	}
	return found
}

func seen(views []*rmq.MessageView) []string {
	var bodies []string
	for _, view := range views {
		bodies = append(bodies, string(view.GetBody()))
	}
	sort.Strings(bodies)
	return bodies
}

type delivery struct {
	body    string
	attempt int32
}

type inbox struct {
	changed *sync.Cond
	got     []delivery
}

func newInbox() *inbox { return &inbox{changed: sync.NewCond(&sync.Mutex{})} }

func (in *inbox) wait(wanted func([]delivery) bool) {
	timer := time.AfterFunc(patience, in.changed.Broadcast)
	defer timer.Stop()
	end := time.Now().Add(patience)
	in.changed.L.Lock()
	defer in.changed.L.Unlock()
	for !wanted(in.got) {
		if time.Now().After(end) {
			panic(fmt.Sprint(in.got))
		}
		in.changed.Wait()
	}
}

func pushing(mode string, in *inbox, judge func(*rmq.MessageView) rmq.ConsumerResult) rmq.PushConsumer {
	listen := func(view *rmq.MessageView) rmq.ConsumerResult {
		in.changed.L.Lock()
		in.got = append(in.got, delivery{string(view.GetBody()), view.GetDeliveryAttempt()})
		in.changed.L.Unlock()
		in.changed.Broadcast()
		return judge(view)
	}
	consumer, err := rmq.NewPushConsumer(
		config(mode), rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topicOf(mode): rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: listen}),
	)
	check(err)
	check(consumer.Start())
	return consumer
}

func accept(*rmq.MessageView) rmq.ConsumerResult { return rmq.SUCCESS }

var modes = map[string]func(rmq.Producer){
	"normal": func(producer rmq.Producer) {
		var ids []string
		for _, body := range numbered("n", 10) {
			one := message("normal", body)
			one.SetTag("A")
			one.SetKeys("k-" + body)
			one.AddProperty("own", body)
			ids = append(ids, send(producer, one).MessageID)
		}
		consumer := simple("normal", rmq.SUB_ALL)
		got := receive(consumer, 10, true, patience)
		equal(seen(got), numbered("n", 10))
		var received []string
		for _, view := range got {
			received = append(received, view.GetMessageId())
			body := string(view.GetBody())
			equal([]any{*view.GetTag(), view.GetKeys(), view.GetProperties()["own"]}, []any{"A", []string{"k-" + body}, body})
			equal(view.GetDeliveryAttempt(), int32(1))
		}
		sort.Strings(ids)
		sort.Strings(received)
		equal(received, ids)
		send(producer, message("normal", strings.Repeat("b", 1_500_000))) // the client refuses more than 2 MiB
		equal(len(receive(consumer, 1, true, patience)[0].GetBody()), 1_500_000)
		check(consumer.GracefulStop())
	},
	"tag": func(producer rmq.Producer) {
		for at, body := range numbered("t", 9) {
			one := message("tag", body)
			one.SetTag(string("ABC"[at%3]))
			send(producer, one)
		}
		consumer := simple("tag", rmq.NewFilterExpression("A || C"))
		equal(seen(receive(consumer, 6, true, patience)), []string{"t0", "t2", "t3", "t5", "t6", "t8"})
		check(consumer.GracefulStop())
	},
	"sql": func(producer rmq.Producer) {
		for at, body := range numbered("s", 6) {
			one := message("sql", body)
			one.AddProperty("a", fmt.Sprint(at))
			send(producer, one)
		}
		consumer := simple("sql", rmq.NewFilterExpressionWithType("a > 3", rmq.SQL92))
		equal(seen(receive(consumer, 2, true, patience)), []string{"s4", "s5"})
		check(consumer.GracefulStop())
	},
	"delay": func(producer rmq.Producer) {
		consumer := simple("delay", rmq.SUB_ALL)
		due := time.Now().Add(3 * time.Second)
		late := message("delay", "late")
		late.SetDelayTimestamp(due)
		send(producer, late)
		equal(seen(receive(consumer, 1, true, patience)), []string{"late"})
		if time.Now().Before(due.Add(-time.Second)) { // brokers are exact to the second
			panic("too early")
		}
		never := message("delay", "never")
		never.SetDelayTimestamp(time.Now().Add(6 * time.Second))
		_, err := producer.Recall(context.Background(), topicOf("delay"), send(producer, never).RecallHandle)
		check(err)
		equal(len(receive(consumer, 1, true, 9*time.Second)), 0)
		check(consumer.GracefulStop())
	},
	"redelivery": func(producer rmq.Producer) {
		send(producer, message("redelivery", "again"))
		consumer := simple("redelivery", rmq.SUB_ALL)
		first := receive(consumer, 1, false, patience)[0]
		equal(first.GetDeliveryAttempt(), int32(1))
		check(consumer.ChangeInvisibleDuration(first, 10*time.Second))
		second := receive(consumer, 1, true, patience)[0]
		equal([]any{second.GetDeliveryAttempt(), second.GetMessageId()}, []any{int32(2), first.GetMessageId()})
		check(consumer.GracefulStop())
	},
	"push": func(producer rmq.Producer) {
		in := newInbox()
		consumer := pushing("push", in, func(view *rmq.MessageView) rmq.ConsumerResult {
			if string(view.GetBody()) == "p3" && view.GetDeliveryAttempt() == 1 {
				return rmq.FAILURE
			}
			return rmq.SUCCESS
		})
		for _, body := range numbered("p", 10) {
			send(producer, message("push", body))
		}
		in.wait(func(got []delivery) bool {
			bodies := map[delivery]bool{}
			for _, one := range got {
				bodies[one] = true
			}
			return len(bodies) == 11 && bodies[delivery{"p3", 2}]
		})
		equal(len(in.got), 11)
		check(consumer.GracefulStop())
	},
	"fifo": func(producer rmq.Producer) {
		in := newInbox()
		consumer := pushing("fifo", in, accept)
		for at := 0; at < 12; at++ {
			one := message("fifo", fmt.Sprintf("f%d-%02d", at%3, at))
			one.SetMessageGroup(fmt.Sprintf("group-%d", at%3))
			send(producer, one)
		}
		in.wait(func(got []delivery) bool { return len(got) >= 12 })
		for _, group := range numbered("f", 3) {
			var bodies []string
			for _, one := range in.got {
				if strings.HasPrefix(one.body, group) {
					bodies = append(bodies, one.body)
				}
			}
			equal(sort.StringsAreSorted(bodies) && len(bodies) == 4, true)
		}
		check(consumer.GracefulStop())
	},
	"transaction": func(rmq.Producer) {
		var lock sync.Mutex
		asked := map[string]bool{}
		checker := &rmq.TransactionChecker{Check: func(view *rmq.MessageView) rmq.TransactionResolution {
			lock.Lock()
			defer lock.Unlock()
			asked[string(view.GetBody())] = true
			if string(view.GetBody()) == "orphan-commit" {
				return rmq.COMMIT
			}
			return rmq.ROLLBACK
		}}
		producer, err := rmq.NewProducer(
			config("transaction"), rmq.WithTransactionChecker(checker), rmq.WithTopics(topicOf("transaction")),
		)
		check(err)
		check(producer.Start())
		consumer := simple("transaction", rmq.SUB_ALL)
		for _, body := range []string{"yes", "no", "orphan-commit", "orphan-rollback"} {
			transaction := producer.BeginTransaction()
			_, err := producer.SendWithTransaction(context.Background(), message("transaction", body), transaction)
			check(err)
			switch body {
			case "yes":
				check(transaction.Commit())
			case "no":
				check(transaction.RollBack())
			}
		}
		equal(seen(receive(consumer, 2, true, patience)), []string{"orphan-commit", "yes"})
		was := func() bool {
			lock.Lock()
			defer lock.Unlock()
			return asked["orphan-rollback"]
		}
		for end := time.Now().Add(patience); !was() && time.Now().Before(end); {
			equal(len(receive(consumer, 1, true, time.Second)), 0)
		}
		equal(was(), true)
		check(consumer.GracefulStop())
		check(producer.GracefulStop())
	},
	"dead": func(producer rmq.Producer) {
		in := newInbox()
		consumer := pushing("dead", in, func(*rmq.MessageView) rmq.ConsumerResult { return rmq.FAILURE })
		send(producer, message("dead", "bad"))
		in.wait(func(got []delivery) bool { return len(got) >= 2 }) // the group retries once at most
		time.Sleep(20 * time.Second)                                // the dead letter is what the test looks for
		check(consumer.GracefulStop())
	},
}

func try(mode string, producer rmq.Producer) (why string) {
	defer func() {
		if fault := recover(); fault != nil {
			why = fmt.Sprint(fault)
		}
	}()
	modes[mode](producer)
	return ""
}

func main() {
	rmq.EnableSsl = os.Args[3] == "tls"
	producer, err := rmq.NewProducer(config("normal"), rmq.WithTopics(topicOf("normal")))
	check(err)
	check(producer.Start())
	failed := 0
	for _, mode := range strings.Split(os.Args[6], ",") {
		line := map[string]any{"mode": mode, "ok": true}
		if why := try(mode, producer); why != "" {
			line, failed = map[string]any{"mode": mode, "ok": false, "why": why}, 1
		}
		said, err := json.Marshal(line)
		check(err)
		fmt.Println(string(said))
	}
	os.Exit(failed)
}
