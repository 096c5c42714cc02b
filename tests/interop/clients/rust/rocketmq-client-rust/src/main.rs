//! Uses a cluster through the crate rocketmq-client-rust: `probe NAMESRV PREFIX MODE...`, see clients/README.md.
#![recursion_limit = "512"]

use std::any::Any;
use std::collections::HashSet;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocketmq_client_rust::{
    ClientConfig, ClientError, ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus, ConsumeOrderlyContext, ConsumeOrderlyStatus, DefaultLitePullConsumer, DefaultMQProducer, DefaultMQPushConsumer,
    LocalTransactionState, MQPushConsumer, MessageListenerConcurrently, MessageListenerOrderly, MessageSelector,
    SendResult, TransactionListener, TransactionMQProducer,
};
use rocketmq_model::common::consumer::consume_from_where::ConsumeFromWhere;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_model::common::message::MessageTrait;
use rocketmq_observability::TelemetryRuntimeGuard;
use rocketmq_protocol::protocol::heartbeat::message_model::MessageModel;
use rocketmq_runtime::RuntimeOwner;
use serde_json::{json, Value};
use tokio::io::AsyncReadExt;

const SENT: usize = 10;
const ORDERED: usize = 12;
const SEND_MILLIS: u32 = 10_000;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn say(mode: &str, kind: &str, mut members: Value) {
    members["mode"] = json!(mode);
    members["kind"] = json!(kind);
    println!("{members}");
}

fn sent(mode: &str, body: &str, result: Option<&SendResult>) {
    match result {
        Some(one) => say(mode, "sent", json!({
            "body": body, "id": one.msg_id.as_ref().map(ToString::to_string), "offset": one.queue_offset,
        })),
        None => say(mode, "error", json!({"text": "no result"})),
    }
}

fn text(message: &MessageExt) -> String {
    String::from_utf8_lossy(&message.body().unwrap_or_default()).into_owned()
}

fn got(mode: &str, who: usize, message: &MessageExt) {
    say(mode, "got", json!({
        "who": who, "body": text(message), "tags": message.get_tags().map(|one| one.to_string()),
        "keys": message.get_keys().map(|one| one.to_string()), "queue": message.queue_id(),
        "offset": message.queue_offset(), "times": message.reconsume_times(),
    }));
}

struct Together {
    mode: String,
    who: usize,
}

impl MessageListenerConcurrently for Together {
    fn consume_message(
        &self, messages: &[&MessageExt], _: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        let mut fails = false;
        for one in messages {
            got(&self.mode, self.who, one);
            fails |= self.mode == "retry" && one.reconsume_times() == 0;
        }
        Ok(if fails { ConsumeConcurrentlyStatus::ReconsumeLater } else { ConsumeConcurrentlyStatus::ConsumeSuccess })
    }
}

struct InOrder {
    mode: String,
    failed: Mutex<HashSet<String>>,
}

impl MessageListenerOrderly for InOrder {
    fn consume_message(
        &self, messages: &[&MessageExt], context: &mut ConsumeOrderlyContext,
    ) -> ClientResult<ConsumeOrderlyStatus> {
        for one in messages {
            if text(one) == "7" && self.failed.lock().unwrap().insert("7".into()) {
                context.set_suspend_current_queue_time_millis(100);
                return Ok(ConsumeOrderlyStatus::SuspendCurrentQueueAMoment);
            }
            got(&self.mode, 0, one);
        }
        Ok(ConsumeOrderlyStatus::Success)
    }
}

struct Ledger;

impl TransactionListener for Ledger {
    fn execute_local_transaction(
        &self, message: &dyn MessageTrait, _: Option<&(dyn Any + Send + Sync)>,
    ) -> LocalTransactionState {
        match message.get_body().map(|body| body.as_ref()) {
            Some(b"commit") => LocalTransactionState::CommitMessage,
            Some(b"rollback") => LocalTransactionState::RollbackMessage,
            _ => LocalTransactionState::Unknown,
        }
    }

    fn check_local_transaction(&self, message: &MessageExt) -> LocalTransactionState {
        let body = text(message);
        say("transaction", "checked", json!({"body": body}));
        if body == "rollback" { LocalTransactionState::RollbackMessage } else { LocalTransactionState::CommitMessage }
    }
}

struct Probe {
    namesrv: String,
    prefix: String,
    runtime: Arc<ClientRuntime>,
    ended: AtomicBool,
}

impl Probe {
    fn topic(&self, mode: &str) -> String {
        format!("{}-{mode}", self.prefix)
    }

    fn config(&self, instance: &str) -> ClientConfig {
        let mut made = ClientConfig::default();
        made.set_instance_name(instance.into());
        made.set_namesrv_addr(self.namesrv.as_str().into());
        made
    }

    fn message(&self, mode: &str, i: usize) -> Message {
        Message::builder().topic(self.topic(mode)).tags(["A", "B"][i % 2]).key(format!("k-{i}"))
            .body_slice(i.to_string().as_bytes()).build_unchecked()
    }

    async fn producer(&self, mode: &str) -> ClientResult<DefaultMQProducer> {
        let mut made = DefaultMQProducer::builder(self.runtime.clone())
            .client_config(self.config(&format!("{mode}-producer"))).producer_group(self.topic(mode))
            .name_server_addr(self.namesrv.clone()).send_msg_timeout(SEND_MILLIS).build();
        made.start().await?;
        Ok(made)
    }

    async fn run(&self, mode: &str) -> Outcome {
        match mode {
            "send" | "async" | "oneway" | "batch" | "ordered" | "delay" => self.send(mode).await,
            "transaction" => self.transactions(mode).await,
            "pull" => self.pull(mode).await,
            "steady" => self.steady(mode).await,
            _ => self.receive(mode).await,
        }
    }

    async fn send(&self, mode: &str) -> Outcome {
        let mut producer = self.producer(mode).await?;
        let count = match mode { "ordered" => ORDERED, "delay" => 1, _ => SENT };
        let messages: Vec<Message> = (0..count).map(|i| self.message(mode, i)).collect();
        if mode == "batch" {
            sent(mode, "0", Some(&producer.send_batch(messages).await?));
        } else {
            for (i, mut one) in messages.into_iter().enumerate() {
                let body = i.to_string();
                match mode {
                    "oneway" => producer.send_oneway(one).await?,
                    "async" => {
                        producer.send_with_callback(one, move |result: Option<&SendResult>, error: Option<&ClientError>| {
                            match error {
                                Some(said) => say("async", "error", json!({"text": said.to_string()})),
                                None => sent("async", &body, result),
                            }
                        }).await?;
                    }
                    "ordered" => {
                        let result = producer.send_with_selector(one, |queues, _: &Message, shard: &usize| {
                            queues.get(shard % queues.len()).cloned()
                        }, i % 3).await?;
                        sent(mode, &body, result.as_ref());
                    }
                    _ => {
                        if mode == "delay" {
                            one.set_delay_time_level(2);
                        }
                        sent(mode, &body, producer.send(one).await?.as_ref());
                    }
                }
            }
        }
        self.until_the_end().await;
        producer.shutdown().await;
        Ok(())
    }

    async fn transactions(&self, mode: &str) -> Outcome {
        let mut producer = TransactionMQProducer::builder(self.runtime.clone()).producer_group(self.topic(mode))
            .name_server_addr(self.namesrv.clone()).topics(vec![self.topic(mode)]).transaction_listener(Ledger).build();
        producer.start().await?;
        for body in ["rollback", "commit", "unknown"] {
            let message = Message::builder().topic(self.topic(mode)).body_slice(body.as_bytes()).build_unchecked();
            producer.send_message_in_transaction::<(), _>(message, None).await?;
            say(mode, "sent", json!({"body": body}));
        }
        self.until_the_end().await;
        producer.shutdown().await;
        Ok(())
    }

    async fn consumer(&self, mode: &str, who: usize) -> ClientResult<DefaultMQPushConsumer> {
        let model = if mode == "broadcast" { MessageModel::Broadcasting } else { MessageModel::Clustering };
        let mut made = DefaultMQPushConsumer::builder(self.runtime.clone())
            .client_config(self.config(&format!("{mode}-{who}"))).consumer_group(self.topic(mode))
            .name_server_addr(self.namesrv.clone()).message_model(model)
            .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset).build();
        match mode {
            "sql" => made.subscribe_with_selector(&self.topic(mode), Some(MessageSelector::by_sql("a > 4"))).await?,
            "tags" => made.subscribe(self.topic(mode), "A || B").await?,
            _ => made.subscribe(self.topic(mode), "*").await?,
        };
        if mode == "orderly" {
            made.register_message_listener_orderly(InOrder { mode: mode.into(), failed: Mutex::default() });
        } else {
            made.register_message_listener_concurrently(Together { mode: mode.into(), who });
        }
        made.start().await?;
        Ok(made)
    }

    async fn receive(&self, mode: &str) -> Outcome {
        let mut open = vec![self.consumer(mode, 0).await?];
        if mode == "broadcast" {
            open.push(self.consumer(mode, 1).await?);
        }
        say(mode, "ready", json!({}));
        self.until_the_end().await;
        for each in &mut open {
            each.shutdown().await;
        }
        Ok(())
    }

    async fn pull(&self, mode: &str) -> Outcome {
        let consumer = DefaultLitePullConsumer::builder(self.runtime.clone()).consumer_group(self.topic(mode))
            .name_server_addr(self.namesrv.clone()).consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
            .instance_name(mode).build()?;
        consumer.subscribe(&self.topic(mode)).await?;
        consumer.start().await?;
        while !self.ended.load(Ordering::Acquire) {
            for one in consumer.poll_with_timeout(500).await {
                got(mode, 0, &one);
            }
        }
        consumer.shutdown().await;
        Ok(())
    }

    async fn steady(&self, mode: &str) -> Outcome {
        let mut consumer = self.consumer(mode, 0).await?;
        let mut producer = self.producer(mode).await?;
        say(mode, "ready", json!({}));
        for i in 0.. {
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            match producer.send_with_timeout(self.message(mode, i), 1000).await {
                Ok(result) => sent(mode, &i.to_string(), result.as_ref()),
                Err(error) => say(mode, "error", json!({"text": error.to_string()})),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        consumer.shutdown().await;
        producer.shutdown().await;
        Ok(())
    }

    async fn until_the_end(&self) {
        while !self.ended.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let owner = RuntimeOwner::new()?;
    let telemetry = TelemetryRuntimeGuard::noop();
    let runtime =
        ClientRuntime::try_new(owner.root_context().component("probe"), ClientRuntimeConfig::default(), telemetry.handle())?;
    let (namesrv, prefix) = (args[1].clone(), args[2].clone());
    let probe = Arc::new(Probe { namesrv, prefix, runtime, ended: AtomicBool::new(false) });
    let modes: Vec<String> = args[3..].to_vec();
    owner.block_on(async {
        let running: Vec<_> = modes.into_iter().map(|mode| {
            let probe = probe.clone();
            tokio::spawn(async move {
                if let Err(error) = probe.run(&mode).await {
                    say(&mode, "error", json!({"text": error.to_string()}));
                }
            })
        }).collect();
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        probe.ended.store(true, Ordering::Release);
        for each in running {
            let _ = tokio::time::timeout(Duration::from_secs(10), each).await;
        }
        say("all", "closed", json!({}));
    });
    std::process::exit(0);
}
