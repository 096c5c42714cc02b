// Uses a cluster with Apache's Go client in every way the client has, and says for each whether it worked:
//
//	probe NAMESRV BROKER
//
// One line of JSON a step, {"step", "ok", "detail"}; the exit status is 0 when all of them were printed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	patience = 90 * time.Second // longer than anything takes; only a step that fails waits for it
	bodySize = 3000             // compressed
)

type probe struct {
	ctx      context.Context
	broker   string
	resolver primitive.NsResolver
	namesrv  string
	producer rocketmq.Producer
}

type handler func(*primitive.MessageExt) consumer.ConsumeResult

func say(step string, ok bool, detail ...any) {
	line, _ := json.Marshal(map[string]any{"step": step, "ok": ok, "detail": fmt.Sprint(detail...)})
	fmt.Println(string(line))
}

func must(step string, err error) {
	if err != nil {
		say(step, false, err)
	}
}

func eventually(is func() bool) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return is()
}

func (p *probe) newProducer(group string, options ...producer.Option) rocketmq.Producer {
	common := []producer.Option{producer.WithNsResolver(p.resolver), producer.WithGroupName(group),
		producer.WithInstanceName(group), producer.WithCompressMsgBodyOverHowmuch(1000)}
	made, err := rocketmq.NewProducer(append(common, options...)...)
	must("producer "+group, err)
	must("producer "+group, made.Start())
	return made
}

func (p *probe) consume(
	topic, group string, selector consumer.MessageSelector, handle handler, options ...consumer.Option,
) rocketmq.PushConsumer {
	common := []consumer.Option{consumer.WithGroupName(group), consumer.WithNsResolver(p.resolver),
		consumer.WithInstance(group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	made, err := rocketmq.NewPushConsumer(append(common, options...)...)
	must("consumer "+group, err)
	receive := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, message := range messages {
			if one := handle(message); one != consumer.ConsumeSuccess {
				result = one
			}
		}
		return result, nil
	}
	must("consumer "+group, made.Subscribe(topic, selector, receive))
	must("consumer "+group, made.Start())
	return made
}

func (p *probe) send(message *primitive.Message) {
	_, err := p.producer.SendSync(p.ctx, message)
	must("send to "+message.Topic, err)
}

// count consumes a topic until a number of messages has come.
func (p *probe) count(step, topic string, want int32, selector consumer.MessageSelector, options ...consumer.Option) {
	var seen, big atomic.Int32
	made := p.consume(topic, strings.ReplaceAll("go-"+step, " ", "-"), selector, func(message *primitive.MessageExt) consumer.ConsumeResult {
		seen.Add(1)
		if len(message.Body) == bodySize {
			big.Add(1)
		}
		return consumer.ConsumeSuccess
	}, options...)
	ok := eventually(func() bool { return seen.Load() >= want })
	say(step, ok && seen.Load() == want, seen.Load(), " of ", want, ", ", big.Load(), " large")
	must(step, made.Shutdown())
}

func (p *probe) admin(topics ...string) {
	made, err := admin.NewAdmin(admin.WithResolver(p.resolver))
	must("admin", err)
	for _, topic := range topics {
		must("create topic", made.CreateTopic(p.ctx, admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(p.broker)))
	}
	list, err := made.FetchAllTopicList(p.ctx)
	must("list topics", err)
	say("list topics", err == nil && strings.Count(" "+strings.Join(list.TopicList, " "), " go-") >= len(topics))
	queues, err := made.FetchPublishMessageQueues(p.ctx, topics[0])
	say("queues to write", err == nil && len(queues) > 0, err, len(queues))
	_, err = made.GetAllSubscriptionGroup(p.ctx, p.broker, patience)
	say("list groups", err == nil, err)
	must("create topic", made.CreateTopic(p.ctx, admin.WithTopicCreate("go-gone"), admin.WithBrokerAddrCreate(p.broker)))
	err = made.DeleteTopic(p.ctx, admin.WithTopicDelete("go-gone"), admin.WithBrokerAddrDelete(p.broker),
		admin.WithNameSrvAddr([]string{p.namesrv}))
	say("delete topic", err == nil, err)
	must("admin", made.Close())
}

// sends leaves 46 messages, 30 of them with tag a, one of them large.
func (p *probe) sends() {
	for i := 0; i < 20; i++ {
		p.send(primitive.NewMessage("go-plain", []byte(strconv.Itoa(i))).WithTag([]string{"a", "b"}[i%2]))
	}
	p.send(primitive.NewMessage("go-plain", make([]byte, bodySize)).WithTag("big"))
	var batch []*primitive.Message
	for i := 0; i < 10; i++ {
		batch = append(batch, primitive.NewMessage("go-plain", []byte("batch")).WithTag("a"))
	}
	_, err := p.producer.SendSync(p.ctx, batch...)
	say("send a batch", err == nil, err)
	var pending sync.WaitGroup
	for i := 0; i < 10; i++ {
		pending.Add(1)
		must("send async", p.producer.SendAsync(p.ctx, func(_ context.Context, _ *primitive.SendResult, err error) {
			must("send async", err)
			pending.Done()
		}, primitive.NewMessage("go-plain", []byte("async")).WithTag("a")))
	}
	pending.Wait()
	for i := 0; i < 5; i++ {
		must("send one-way", p.producer.SendOneWay(p.ctx, primitive.NewMessage("go-plain", []byte("one-way")).WithTag("b")))
	}
}

func (p *probe) orderly() {
	ordered := p.newProducer("go-ordered", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for i := 0; i < 100; i++ {
		message := primitive.NewMessage("go-order", []byte(strconv.Itoa(i))).WithShardingKey("key-" + strconv.Itoa(i%4))
		_, err := ordered.SendSync(p.ctx, message)
		must("send ordered", err)
	}
	must("send ordered", ordered.Shutdown())
	var lock sync.Mutex
	last, seen, late, failed := map[string]int{}, 0, 0, false
	made := p.consume("go-order", "go-orderly", consumer.MessageSelector{},
		func(message *primitive.MessageExt) consumer.ConsumeResult {
			lock.Lock()
			defer lock.Unlock()
			number, _ := strconv.Atoi(string(message.Body))
			if number == 50 && !failed {
				failed = true
				return consumer.SuspendCurrentQueueAMoment
			}
			if before, known := last[message.GetShardingKey()]; known && before >= number {
				late++
			}
			last[message.GetShardingKey()] = number
			seen++
			return consumer.ConsumeSuccess
		}, consumer.WithConsumerOrder(true))
	ok := eventually(func() bool { lock.Lock(); defer lock.Unlock(); return seen >= 100 })
	say("orderly", ok && late == 0 && failed, seen, " seen, ", late, " out of order")
	must("orderly", made.Shutdown())
}

func (p *probe) later() {
	sent := time.Now()
	p.send(primitive.NewMessage("go-delay", []byte("later")).WithDelayTimeLevel(2))
	var after atomic.Int64
	made := p.consume("go-delay", "go-delayed", consumer.MessageSelector{},
		func(*primitive.MessageExt) consumer.ConsumeResult {
			after.Store(int64(time.Since(sent)))
			return consumer.ConsumeSuccess
		})
	ok := eventually(func() bool { return after.Load() > 0 })
	early := time.Duration(after.Load()) < 4900*time.Millisecond
	say("delay level 2", ok && !early, time.Duration(after.Load()))
	must("delay level 2", made.Shutdown())
}

func (p *probe) again() {
	p.send(primitive.NewMessage("go-retry", []byte("again")))
	var times, told atomic.Int32
	made := p.consume("go-retry", "go-retrying", consumer.MessageSelector{},
		func(message *primitive.MessageExt) consumer.ConsumeResult {
			told.Store(message.ReconsumeTimes)
			if times.Add(1) == 1 {
				return consumer.ConsumeRetryLater
			}
			return consumer.ConsumeSuccess
		})
	ok := eventually(func() bool { return times.Load() == 2 })
	say("retry", ok && told.Load() == 1, times.Load(), " deliveries, reconsumed ", told.Load())
	must("retry", made.Shutdown())
}

type ledger struct{ checks atomic.Int32 }

func (*ledger) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	states := map[string]primitive.LocalTransactionState{
		"commit": primitive.CommitMessageState, "rollback": primitive.RollbackMessageState,
	}
	if state, known := states[string(message.Body)]; known {
		return state
	}
	return primitive.UnknowState
}

func (l *ledger) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	l.checks.Add(1)
	return primitive.CommitMessageState
}

func (p *probe) transactions() {
	listener := &ledger{}
	made, err := rocketmq.NewTransactionProducer(listener, producer.WithNsResolver(p.resolver),
		producer.WithGroupName("go-tx"), producer.WithInstanceName("go-tx"))
	must("transactions", err)
	must("transactions", made.Start())
	for _, body := range []string{"rollback", "commit", "unknown"} {
		_, err = made.SendMessageInTransaction(p.ctx, primitive.NewMessage("go-tx", []byte(body)))
		must("transactions", err)
	}
	var lock sync.Mutex
	seen := map[string]int{}
	reader := p.consume("go-tx", "go-tx-reader", consumer.MessageSelector{},
		func(message *primitive.MessageExt) consumer.ConsumeResult {
			lock.Lock()
			defer lock.Unlock()
			seen[string(message.Body)]++
			return consumer.ConsumeSuccess
		})
	ok := eventually(func() bool { lock.Lock(); defer lock.Unlock(); return len(seen) == 2 })
	say("transactions", ok && seen["commit"] == 1 && seen["unknown"] == 1 && listener.checks.Load() > 0, seen)
	must("transactions", reader.Shutdown())
	must("transactions", made.Shutdown())
}

// pull polls the messages of sends.
func (p *probe) pull() {
	made, err := rocketmq.NewPullConsumer(consumer.WithGroupName("go-pull"), consumer.WithNsResolver(p.resolver),
		consumer.WithInstance("go-pull"), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must("pull consumer", err)
	must("pull consumer", made.Subscribe("go-plain", consumer.MessageSelector{}))
	must("pull consumer", made.Start())
	seen := 0
	eventually(func() bool {
		polled, err := made.Poll(p.ctx, time.Second)
		if err == nil {
			seen += len(polled.GetMsgList())
			made.ACK(p.ctx, polled, consumer.ConsumeSuccess)
		}
		return seen >= 46
	})
	say("pull consumer", seen == 46, seen)
	must("pull consumer", made.Shutdown())
}

func (p *probe) requests() {
	replier := p.newProducer("go-replier")
	server := p.consume("go-request", "go-server", consumer.MessageSelector{},
		func(message *primitive.MessageExt) consumer.ConsumeResult {
			reply, err := consumer.CreateReplyMessage(message, nil)
			must("reply", err)
			reply.Body = append([]byte("reply to "), message.Body...) // what is given above is taken for properties
			_, err = replier.SendSync(p.ctx, reply)
			must("reply", err)
			return consumer.ConsumeSuccess
		})
	reply, err := p.producer.Request(p.ctx, patience, primitive.NewMessage("go-request", []byte("hello")))
	say("request", err == nil && string(reply.Body) == "reply to hello", err)
	must("request", server.Shutdown())
	must("request", replier.Shutdown())
}

func main() {
	rlog.SetLogLevel("error")
	namesrv := os.Args[1]
	p := &probe{ctx: context.Background(), broker: os.Args[2], namesrv: namesrv,
		resolver: primitive.NewPassthroughResolver([]string{namesrv})}
	p.admin("go-plain", "go-order", "go-delay", "go-retry", "go-tx", "go-sql", "go-request")
	p.producer = p.newProducer("go-producer")
	p.sends()
	p.count("consume", "go-plain", 46, consumer.MessageSelector{})
	p.count("consume by tag", "go-plain", 30, consumer.MessageSelector{Type: consumer.TAG, Expression: "a || c"})
	p.count("broadcasting", "go-plain", 46, consumer.MessageSelector{}, consumer.WithConsumerModel(consumer.BroadCasting))
	for i := 0; i < 10; i++ {
		message := primitive.NewMessage("go-sql", []byte("sql"))
		message.WithProperty("a", strconv.Itoa(i))
		p.send(message)
	}
	p.count("consume by sql", "go-sql", 4, consumer.MessageSelector{Type: consumer.SQL92, Expression: "a between 3 and 6"})
	p.pull()
	p.orderly()
	p.later()
	p.again()
	p.transactions()
	p.requests()
	must("producer", p.producer.Shutdown())
}
