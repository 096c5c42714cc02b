// Uses a cluster with Apache's Go client: probe NAMESRV PREFIX MODE..., see clients/README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	sent       = 10
	ordered    = 12
	sendMillis = 10_000
)

type members map[string]any

type closer interface{ Shutdown() error }

type probe struct {
	ctx     context.Context
	namesrv string
	prefix  string
	lock    sync.Mutex
	open    []closer
	ended   atomic.Bool
}

func say(mode, kind string, more members) {
	line := members{"mode": mode, "kind": kind}
	for name, value := range more {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func sentLine(mode, body string, result *primitive.SendResult) {
	say(mode, "sent", members{"body": body, "id": result.MsgID, "queue": result.MessageQueue.QueueId, "offset": result.QueueOffset})
}

func (p *probe) topic(mode string) string { return p.prefix + "-" + mode }

func (p *probe) keep(each closer) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.open = append(p.open, each)
}

func (p *probe) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{p.namesrv})
}

func (p *probe) message(mode string, i int) *primitive.Message {
	message := primitive.NewMessage(p.topic(mode), []byte(strconv.Itoa(i)))
	return message.WithTag([]string{"A", "B"}[i%2]).WithKeys([]string{"k-" + strconv.Itoa(i)})
}

func (p *probe) producer(mode string, timeout int) (rocketmq.Producer, error) {
	made, err := rocketmq.NewProducer(producer.WithNsResolver(p.resolver()), producer.WithGroupName(p.topic(mode)),
		producer.WithInstanceName(mode+"-producer"), producer.WithSendMsgTimeout(time.Duration(timeout)*time.Millisecond),
		producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err == nil {
		err = made.Start()
	}
	if err == nil {
		p.keep(made)
	}
	return made, err
}

func (p *probe) send(mode string) error {
	made, err := p.producer(mode, sendMillis)
	if err != nil {
		return err
	}
	var all []*primitive.Message
	for i := 0; i < sent; i++ {
		all = append(all, p.message(mode, i))
	}
	switch mode {
	case "batch":
		result, err := made.SendSync(p.ctx, all...)
		if err == nil {
			sentLine(mode, "0", result)
		}
		return err
	case "delay":
		all = []*primitive.Message{all[0].WithDelayTimeLevel(2)}
	case "ordered":
		all = nil
		for i := 0; i < ordered; i++ {
			all = append(all, p.message(mode, i).WithShardingKey("shard-"+strconv.Itoa(i%3)))
		}
	}
	for i, each := range all {
		body := strconv.Itoa(i)
		switch mode {
		case "oneway":
			err = made.SendOneWay(p.ctx, each)
		case "async":
			err = made.SendAsync(p.ctx, func(_ context.Context, result *primitive.SendResult, err error) {
				if err != nil {
					say(mode, "error", members{"text": err.Error()})
				} else {
					sentLine(mode, body, result)
				}
			}, each)
		default:
			var result *primitive.SendResult
			if result, err = made.SendSync(p.ctx, each); err == nil {
				sentLine(mode, body, result)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type ledger struct{}

func (ledger) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch string(message.Body) {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (ledger) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	body := string(message.Body)
	say("transaction", "checked", members{"body": body})
	if body == "rollback" {
		return primitive.RollbackMessageState
	}
	return primitive.CommitMessageState
}

func (p *probe) transactions(mode string) error {
	made, err := rocketmq.NewTransactionProducer(ledger{}, producer.WithNsResolver(p.resolver()),
		producer.WithGroupName(p.topic(mode)), producer.WithInstanceName(mode))
	if err == nil {
		err = made.Start()
	}
	if err != nil {
		return err
	}
	p.keep(made)
	for _, body := range []string{"rollback", "commit", "unknown"} {
		if _, err = made.SendMessageInTransaction(p.ctx, primitive.NewMessage(p.topic(mode), []byte(body))); err != nil {
			return err
		}
		say(mode, "sent", members{"body": body})
	}
	return nil
}

func (p *probe) got(mode string, who int, message *primitive.MessageExt) {
	say(mode, "got", members{"who": who, "body": string(message.Body), "tags": message.GetTags(), "keys": message.GetKeys(),
		"queue": message.Queue.QueueId, "offset": message.QueueOffset, "times": message.ReconsumeTimes})
}

func selector(mode string) consumer.MessageSelector {
	switch mode {
	case "tags":
		return consumer.MessageSelector{Type: consumer.TAG, Expression: "A || B"}
	case "sql":
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: "a > 4"}
	}
	return consumer.MessageSelector{}
}

func (p *probe) consume(mode string, who int) error {
	model := consumer.Clustering
	if mode == "broadcast" {
		model = consumer.BroadCasting
	}
	made, err := rocketmq.NewPushConsumer(consumer.WithGroupName(p.topic(mode)), consumer.WithNsResolver(p.resolver()),
		consumer.WithInstance(fmt.Sprintf("%s-%d", mode, who)), consumer.WithConsumerModel(model),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(mode == "orderly"))
	if err != nil {
		return err
	}
	var failed atomic.Bool
	listen := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, each := range messages {
			if mode == "orderly" && string(each.Body) == "7" && failed.CompareAndSwap(false, true) {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			p.got(mode, who, each)
			if mode == "retry" && each.ReconsumeTimes == 0 {
				result = consumer.ConsumeRetryLater
			}
		}
		return result, nil
	}
	if err = made.Subscribe(p.topic(mode), selector(mode), listen); err == nil {
		err = made.Start()
	}
	if err == nil {
		p.keep(made)
	}
	return err
}

func (p *probe) pull(mode string) error {
	made, err := rocketmq.NewPullConsumer(consumer.WithGroupName(p.topic(mode)), consumer.WithNsResolver(p.resolver()),
		consumer.WithInstance(mode), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err == nil {
		err = made.Subscribe(p.topic(mode), consumer.MessageSelector{})
	}
	if err == nil {
		err = made.Start()
	}
	if err != nil {
		return err
	}
	p.keep(made)
	for !p.ended.Load() {
		polled, err := made.Poll(p.ctx, time.Second)
		if err == nil {
			for _, each := range polled.GetMsgList() {
				p.got(mode, 0, each)
			}
			made.ACK(p.ctx, polled, consumer.ConsumeSuccess)
		}
	}
	return nil
}

func (p *probe) steady(mode string) error {
	if err := p.consume(mode, 0); err != nil {
		return err
	}
	made, err := p.producer(mode, 1000)
	if err != nil {
		return err
	}
	say(mode, "ready", nil)
	for i := 0; !p.ended.Load(); i++ {
		result, err := made.SendSync(p.ctx, p.message(mode, i))
		if err != nil {
			say(mode, "error", members{"text": err.Error()})
		} else {
			sentLine(mode, strconv.Itoa(i), result)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil
}

func (p *probe) run(mode string) error {
	switch mode {
	case "send", "async", "oneway", "batch", "ordered", "delay":
		return p.send(mode)
	case "transaction":
		return p.transactions(mode)
	case "pull":
		return p.pull(mode)
	case "steady":
		return p.steady(mode)
	case "broadcast":
		if err := p.consume(mode, 1); err != nil {
			return err
		}
	}
	return p.consume(mode, 0)
}

func main() {
	rlog.SetLogLevel("error")
	rlog.SetOutputPath(os.DevNull) // not among the lines
	p := &probe{ctx: context.Background(), namesrv: os.Args[1], prefix: os.Args[2]}
	var running sync.WaitGroup
	for _, mode := range os.Args[3:] {
		running.Add(1)
		go func() {
			defer running.Done()
			if err := p.run(mode); err != nil {
				say(mode, "error", members{"text": err.Error()})
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	p.ended.Store(true)
	running.Wait()
	for _, each := range p.open {
		_ = each.Shutdown()
	}
	say("all", "closed", nil)
}
